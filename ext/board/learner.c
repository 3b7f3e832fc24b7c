/* The learner's end. Whether a learner takes part stands in a file of the learner's own, with what could not be sent:
 *   {"url": …, "learner": …, "seen": the last message's number, "again": not before this time, "unsent": [events]}
 * An exercise must not wait for a board: a request ends after less than a second, and after a failure a minute passes
 * before the next. */
#define _GNU_SOURCE
#include "board/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { UNSENT_MOST = 300, PAUSE_SECONDS = 60 };
static const double patience = 0.8;

/* KOLO_BOARD_FILE, or kolo/board.json in the user's data folder, whose folders are made. */
static bool settings_path(char path[static 4096])
{
    const char *given = getenv("KOLO_BOARD_FILE"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (given && *given) {
        snprintf(path, 4096, "%s", given);
    } else if (data && *data) {
        snprintf(path, 4096, "%s/kolo/board.json", data);
    } else if (home && *home) {
        snprintf(path, 4096, "%s/.local/share/kolo/board.json", home);
    } else {
        return false;
    }
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    return true;
}

/* Two kernels of one learner take turns: the lock's descriptor is closed as the program ends. */
static void lock(const char *path)
{
    char name[4200];
    snprintf(name, sizeof name, "%s.lock", path);
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) flock(file, LOCK_EX);
}

static bool save(const json_t *settings, const char *path)
{
    char part[4200];
    snprintf(part, sizeof part, "%s.part", path);
    int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool whole = file >= 0 && json_dumpfd(settings, file, JSON_COMPACT) == 0;
    if (file >= 0) whole = close(file) == 0 && whole;
    if (whole && rename(part, path) == 0) return true;
    board_say(BOARD_FAILED, "%s could not be written: %s", path, strerror(errno));
    return false;
}

/* The learner's settings; NULL before join. */
static json_t *joined(char path[static 4096])
{
    if (!settings_path(path) || access(path, F_OK) != 0) return NULL;
    lock(path);
    return json_load_file(path, 0, NULL);
}

static void print_messages(json_t *settings, const char *text)
{
    json_t *messages = json_loads(text, 0, NULL), *message;
    size_t i;
    json_array_foreach(messages, i, message)
    {
        const char *said = json_string_value(json_object_get(message, "text"));
        if (said) printf("From the instructor:\n%s\n", said);
        json_object_set(settings, "seen", json_object_get(message, "id"));
    }
    fflush(stdout);
    json_decref(messages);
}

static bool hear(json_t *settings, const char *url, char why[static 200])
{
    char path[64];
    snprintf(path, sizeof path, "/messages?after=%lld",
             (long long)json_integer_value(json_object_get(settings, "seen")));
    char *text = board_request(url, path, NULL, patience, why);
    if (text) print_messages(settings, text);
    free(text);
    return text != NULL;
}

static bool send_unsent(json_t *settings, const char *url, char why[static 200])
{
    json_t *unsent = json_object_get(settings, "unsent");
    if (!json_array_size(unsent)) return true;
    char *body = json_dumps(unsent, JSON_COMPACT),
         *reply = body ? board_request(url, "/events", body, patience, why) : NULL;
    /* What the board refuses would be refused again. */
    if (reply || strncmp(why, "status 400", 10) == 0) json_array_clear(unsent);
    free(body);
    free(reply);
    return reply != NULL;
}

/* Sends the unsent events and prints new messages. After a failure it does nothing for PAUSE_SECONDS. A later time than
 * that was noted by a clock that was wrong. */
static void talk(json_t *settings)
{
    char why[200] = "";
    const char *url = json_string_value(json_object_get(settings, "url"));
    json_int_t pause = json_integer_value(json_object_get(settings, "again")) - time(NULL);
    if (!url || (pause > 0 && pause <= PAUSE_SECONDS)) return;
    bool reached = send_unsent(settings, url, why) && hear(settings, url, why);
    json_object_set_new(settings, "again", json_integer(reached ? 0 : time(NULL) + PAUSE_SECONDS));
}

/* Adds an event to those that are unsent, and sends them. Returns how many are unsent then, or -1. */
static int note_and_send(json_t *settings, const char *path, const char *exercise, const char *event, int number)
{
    json_t *unsent = json_object_get(settings, "unsent");
    json_array_append_new(unsent, json_pack("{s:O, s:s, s:s, s:i}", "learner", json_object_get(settings, "learner"),
                                            "exercise", exercise, "event", event, "number", number));
    if (json_array_size(unsent) > UNSENT_MOST) json_array_remove(unsent, 0);
    talk(settings);
    return save(settings, path) ? (int)json_array_size(unsent) : -1;
}

int board_send(const char *exercise, const char *event, int number)
{
    char path[4096];
    json_t *settings = joined(path);
    if (!settings) return BOARD_OK;
    int unsent = note_and_send(settings, path, exercise, event, number);
    json_decref(settings);
    return unsent >= 0 ? BOARD_OK : BOARD_FAILED;
}

static int say_not_joined(void)
{
    return board_say(BOARD_FAILED, "you are not on the board: run the line with 'kolo-board join' first");
}

int board_hand(bool up)
{
    char path[4096];
    json_t *settings = joined(path);
    if (!settings) return say_not_joined();
    json_object_set_new(settings, "again", json_integer(0));
    int unsent = note_and_send(settings, path, "", up ? "waiting" : "served", 0);
    json_decref(settings);
    if (unsent < 0) return BOARD_FAILED;
    if (unsent > 0) return board_say(BOARD_FAILED, "the board does not answer now; it will be told later");
    puts(up ? "The board shows that you wait for help. `kolo-board helped` ends this."
            : "The board no longer shows that you wait.");
    return BOARD_OK;
}

int board_news(void)
{
    char path[4096];
    json_t *settings = joined(path);
    if (!settings) return say_not_joined();
    json_object_set_new(settings, "again", json_integer(0));
    talk(settings);
    bool reached = json_integer_value(json_object_get(settings, "again")) == 0, saved = save(settings, path);
    json_decref(settings);
    if (saved && !reached) board_say(BOARD_FAILED, "the board does not answer now");
    return saved && reached ? BOARD_OK : BOARD_FAILED;
}

bool board_learner(char **url, char **learner)
{
    char path[4096];
    const char *u, *l;
    /* Without the lock, which would keep checks waiting for as long as this program runs: the file is replaced whole.
     */
    json_t *settings = settings_path(path) ? json_load_file(path, 0, NULL) : NULL;
    bool there = settings && json_unpack(settings, "{s:s, s:s}", "url", &u, "learner", &l) == 0;
    if (there) {
        *url = strdup(u);
        *learner = strdup(l);
    }
    json_decref(settings);
    return there && *url && *learner;
}

/* Who joins the same board again is not shown its messages again. */
static void keep_what_was_seen(json_t *settings, const char *path)
{
    json_t *before = json_load_file(path, 0, NULL), *seen = json_object_get(before, "seen");
    if (seen && json_equal(json_object_get(before, "url"), json_object_get(settings, "url")))
        json_object_set(settings, "seen", seen);
    json_decref(before);
}

int board_join(const char *url, const char *learner)
{
    char path[4096], why[200];
    if (!board_good_name(learner))
        return board_say(BOARD_WRONG_USE, "a learner's name has 1 to 40 bytes and no control characters, got '%s'",
                         learner);
    if (!settings_path(path))
        return board_say(BOARD_FAILED, "neither HOME nor KOLO_BOARD_FILE says where to note the board");
    json_t *settings =
        json_pack("{s:s, s:s, s:i, s:i, s:[]}", "url", url, "learner", learner, "seen", 0, "again", 0, "unsent");
    if (!settings) return board_say(BOARD_WRONG_USE, "the name and the URL have to be UTF-8");
    lock(path);
    keep_what_was_seen(settings, path);
    /* An empty list of events is what tells a wrong key from a board that is not there. */
    char *reply = board_request(url, "/events", "[]", 5, why);
    bool done = reply && save(settings, path);
    if (!reply) board_say(BOARD_FAILED, "the board does not take learners at this URL: %s", why);
    if (done)
        printf("The board now shows '%s': passed exercises, tries and hints, never code. `kolo-board leave` ends "
               "this.\n",
               learner);
    free(reply);
    json_decref(settings);
    return done ? BOARD_OK : BOARD_FAILED;
}

int board_leave(void)
{
    char path[4096];
    if (!settings_path(path) || (unlink(path) != 0 && errno != ENOENT))
        return board_say(BOARD_FAILED, "the note of the board could not be removed: %s", strerror(errno));
    puts("Nothing is sent to the board from now on.");
    return BOARD_OK;
}
