#define _GNU_SOURCE
#include "board/board.h"
#include "board/state.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MOST = 16 << 20 };

typedef struct {
    char *text;
    size_t size;
} answer;

static size_t gather(char *data, size_t one, size_t count, void *into)
{
    answer *a = into;
    size_t more = one * count;
    char *larger = a->size + more < ANSWER_MOST ? realloc(a->text, a->size + more + 1) : NULL;
    if (!larger) return 0;
    memcpy(larger + a->size, data, more);
    a->text = larger;
    a->size += more;
    larger[a->size] = '\0';
    return more;
}

static void set_request(CURL *curl, const char *url, const char *body, double seconds, answer *into)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(seconds * 1000));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, gather);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, into);
    if (body) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
}

/* The board's own sentence, without its line end, where it refused. */
static bool accepted(CURL *curl, CURLcode code, answer *a, char why[static 200])
{
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
        snprintf(why, 200, "%s", curl_easy_strerror(code));
    } else if (status != 200) {
        size_t length = a->text ? strcspn(a->text, "\r\n") : 0;
        snprintf(why, 200, "status %ld%s%.*s", status, length ? ": " : "", (int)(length < 150 ? length : 150),
                 a->text ? a->text : "");
    } else {
        return true;
    }
    return false;
}

char *board_request(const char *url, const char *path, const char *body, double seconds, char why[static 200])
{
    answer a = {0};
    char *whole = NULL;
    size_t length = strlen(url);
    while (length && url[length - 1] == '/') length--;
    CURL *curl = curl_easy_init();
    bool done = curl && asprintf(&whole, "%.*s%s", (int)length, url, path) > 0;
    if (done) {
        set_request(curl, whole, body, seconds, &a);
        done = accepted(curl, curl_easy_perform(curl), &a, why);
    } else {
        snprintf(why, 200, "no memory");
    }
    curl_easy_cleanup(curl);
    free(whole);
    if (done && !a.text) a.text = strdup("");
    if (done) return a.text;
    free(a.text);
    return NULL;
}

/* POSTs and releases `object`, which is NULL if its text was not UTF-8. Prints "the " and `text` or `failure` when it
 * fails. */
static int post(const char *url, const char *path, json_t *object, const char *text, const char *failure)
{
    char why[200];
    char *body = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!body) return board_say(BOARD_WRONG_USE, "the %s is not UTF-8", text);
    char *reply = board_request(url, path, body, 10, why);
    free(body);
    free(reply);
    return reply ? BOARD_OK : board_say(BOARD_FAILED, "the %s: %s", failure, why);
}

int board_push(const char *url, const char *text)
{
    return post(url, "/messages", json_pack("{s:s}", "text", text), "message", "message was not pushed");
}

/* The CSV of a class's file, whether or not its board runs: the board writes the file after each change. */
static char *results_of_file(const char *file)
{
    if (access(file, R_OK) != 0) {
        board_say(BOARD_FAILED, "%s cannot be read: %s", file, strerror(errno));
        return NULL;
    }
    json_t *state = state_open(file);
    char *csv = state ? state_as_csv(state) : NULL;
    json_decref(state);
    return csv;
}

static char *results_of_board(const char *url)
{
    char why[200];
    char *csv = board_request(url, "/results.csv", NULL, 30, why);
    if (!csv) board_say(BOARD_FAILED, "the results could not be read: %s", why);
    return csv;
}

int board_results(const char *from)
{
    char *csv = strncmp(from, "http", 4) == 0 ? results_of_board(from) : results_of_file(from);
    if (!csv) return BOARD_FAILED;
    bool written = fputs(csv, stdout) >= 0 && fflush(stdout) == 0;
    free(csv);
    return written ? BOARD_OK : board_say(BOARD_FAILED, "the results could not be written to the output");
}

int board_open(const char *url, int size, const char *command)
{
    json_t *ring = json_pack("{s:i, s:s}", "size", size, "command", command);
    int code = post(url, "/ring", ring, "command", "ring was not opened");
    if (code == BOARD_OK) printf("A ring of %d is open. Learners run in a cell:\n!kolo-board ring %s\n", size, command);
    return code;
}
