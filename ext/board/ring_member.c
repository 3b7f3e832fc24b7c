/* The learner's end of a ring: waits until all are there, and becomes the rank. See ring.h. */
#define _GNU_SOURCE
#include "board/board.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The board forgets a learner from whom it has not heard for 15 seconds; a board that is silent for longer is gone. */
static const double request_seconds = 5, gone_seconds = 30;
static const struct timespec pause_between = {.tv_nsec = 500000000};

static volatile sig_atomic_t interrupted;
static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A port of this machine that is free now; 0 if there is none. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    int port = 0, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener >= 0 && bind(listener, (struct sockaddr *)&at, size) == 0 &&
        getsockname(listener, (struct sockaddr *)&at, &size) == 0)
        port = ntohs(at.sin_port);
    if (listener >= 0) close(listener);
    return port;
}

static bool is_program(const char *name)
{
    char path[4096];
    const char *folders = getenv("PATH");
    if (strchr(name, '/')) return access(name, X_OK) == 0;
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, folders, name);
        if (access(path, X_OK) == 0) return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

static char *joined_by_spaces(char *const *words)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (int i = 0; words[i]; i++) fprintf(out, "%s%s", i ? " " : "", words[i]);
    return fclose(out) == 0 ? text : NULL;
}

enum { TICKET = 16 }; /* bytes */

/* What this learner says every half second. */
static json_t *request_of(const char *learner, char *const *words, int port)
{
    char *command = joined_by_spaces(words);
    json_t *request = json_pack("{s:s, s:o, s:i, s:s}", "learner", learner, "ticket", board_random(TICKET), "port",
                                port, "command", command);
    free(command);
    return request;
}

/* Prints who is there, if that has changed. */
static void say_who(const json_t *reply, char **last)
{
    json_t *there = json_object_get(reply, "there"), *name;
    char *text = NULL;
    size_t size, i;
    FILE *out = open_memstream(&text, &size);
    if (!out) return;
    fprintf(out, "ring: %zu of %lld are there:", json_array_size(there),
            (long long)json_integer_value(json_object_get(reply, "size")));
    json_array_foreach(there, i, name) fprintf(out, "%s %s", i ? "," : "", json_string_value(name));
    fclose(out);
    if (!*last || strcmp(*last, text) != 0) puts(text);
    fflush(stdout);
    free(*last);
    *last = text;
}

static json_t *ask(const char *url, const json_t *request, char why[static 200])
{
    char *body = json_dumps(request, JSON_COMPACT);
    char *text = body ? board_request(url, "/ring", body, request_seconds, why) : NULL;
    json_t *reply = text ? json_loads(text, 0, NULL) : NULL;
    if (text && !reply) snprintf(why, 200, "its answer is no JSON");
    free(body);
    free(text);
    return reply;
}

/* The board's last answer, which has this learner's rank; NULL, with the reason in `why`. */
static json_t *wait_for_all(const char *url, json_t *request, char why[static 200])
{
    char *last = NULL;
    double heard = seconds_now();
    for (;;) {
        json_t *reply = ask(url, request, why);
        bool refused = !reply && strncmp(why, "status ", 7) == 0;
        if (json_object_get(reply, "rank") || refused || (!reply && seconds_now() - heard > gone_seconds)) {
            free(last);
            return reply;
        }
        if (reply) {
            heard = seconds_now();
            say_who(reply, &last);
        }
        json_decref(reply);
        if (!interrupted) nanosleep(&pause_between, NULL);
        if (interrupted) break;
    }
    free(last);
    json_object_set_new(request, "leave", json_true());
    json_decref(ask(url, request, why));
    snprintf(why, 200, "interrupted");
    return NULL;
}

/* A training's progress is shown by rank 0 alone. */
static void say_rank(int rank, size_t size, const char *first)
{
    printf("ring: all %zu are there. This is rank %d", size, rank);
    if (rank) printf("; rank 0 (%s) shows the training", first);
    puts(".");
    fflush(stdout);
}

static void set_slow(int rank, double slow)
{
    char fault[100];
    snprintf(fault, sizeof fault, "rank=%d,step=0,what=slow:%gx", rank, slow);
    if (slow > 0) setenv("KOLO_FAULT", fault, 1);
}

/* Replaces this process by the rank. Returns only if that fails. */
static int become_rank(const json_t *reply, double slow, char *const *words)
{
    json_t *addresses = json_object_get(reply, "addresses"), *rank = json_object_get(reply, "rank");
    const char *key = json_string_value(json_object_get(reply, "key"));
    const char *first = json_string_value(json_object_get(reply, "first"));
    json_t *config =
        json_pack("{s:{s:O}, s:{s:s, s:O}}", "cluster", "worker", addresses, "task", "type", "worker", "index", rank);
    char *text = config ? json_dumps(config, JSON_COMPACT) : NULL;
    json_decref(config);
    if (!text || !key || !first) {
        free(text);
        return board_say(BOARD_FAILED, "the board's answer has no list of addresses and no key");
    }
    say_rank((int)json_integer_value(rank), json_array_size(addresses), first);
    setenv("TF_CONFIG", text, 1);
    setenv("KOLO_CLUSTER_KEY", key, 1);
    set_slow((int)json_integer_value(rank), slow);
    free(text);
    signal(SIGINT, SIG_DFL);
    execvp(words[0], words);
    return board_say(BOARD_FAILED, "%s cannot be run: %s", words[0], strerror(errno));
}

int board_ring(int port, double slow, char *const *words)
{
    char why[200] = "";
    if (!is_program(words[0])) return board_say(BOARD_WRONG_USE, "there is no program '%s' here", words[0]);
    char *url = NULL, *learner = NULL;
    if (!board_learner(&url, &learner))
        return board_say(BOARD_FAILED, "you are not on the board: run the line with 'kolo-board join' first");
    if (port < 0) port = free_port();
    json_t *request = request_of(learner, words, port);
    signal(SIGINT, interrupt);
    json_t *reply = request ? wait_for_all(url, request, why) : NULL;
    json_decref(request);
    free(url);
    free(learner);
    int code = reply         ? become_rank(reply, slow, words)
               : interrupted ? board_say(130, "you have left the ring")
                             : board_say(BOARD_FAILED, "the board has no place in a ring: %s", why);
    json_decref(reply);
    return code;
}
