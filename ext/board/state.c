#define _GNU_SOURCE
#include "board/state.h"
#include "board/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

bool board_good_name(const char *name)
{
    size_t length = name ? strlen(name) : 0;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 127) return false;
    }
    return length >= 1 && length <= 40;
}

json_t *board_random(size_t bytes)
{
    unsigned char random[BOARD_RANDOM];
    char text[2 * sizeof random + 1];
    if (bytes > sizeof random || getrandom(random, bytes, 0) != (ssize_t)bytes) return NULL;
    for (size_t i = 0; i < bytes; i++) snprintf(text + 2 * i, 3, "%02x", random[i]);
    return json_string(text);
}

enum { KEY_BYTES = 16 };

static json_t *new_class(void)
{
    return json_pack("{s:o, s:o, s:{}, s:[]}", "learner_key", board_random(KEY_BYTES), "instructor_key",
                     board_random(KEY_BYTES), "learners", "messages");
}

static bool is_class(const json_t *state)
{
    return json_is_string(json_object_get(state, "learner_key")) &&
           json_is_string(json_object_get(state, "instructor_key")) &&
           json_is_object(json_object_get(state, "learners")) && json_is_array(json_object_get(state, "messages"));
}

json_t *state_open(const char *file)
{
    json_error_t error;
    json_t *state = NULL;
    if (access(file, F_OK) == 0) {
        state = json_load_file(file, 0, &error);
        if (!state) {
            board_say(BOARD_FAILED, "%s: wanted a class's JSON, got: %s", file, error.text);
        } else if (!is_class(state)) {
            board_say(BOARD_FAILED,
                      "%s: wanted a class's JSON with keys, learners and messages; another file was named", file);
            json_decref(state);
            state = NULL;
        }
        return state;
    }
    state = new_class();
    if (state && state_save(state, file)) return state;
    json_decref(state);
    return NULL;
}

bool state_save(const json_t *state, const char *file)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.part", file);
    int descriptor = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool whole = descriptor >= 0 && json_dumpfd(state, descriptor, JSON_INDENT(1)) == 0 && fsync(descriptor) == 0;
    if (descriptor >= 0) whole = close(descriptor) == 0 && whole;
    if (whole && rename(part, file) == 0) return true;
    board_say(BOARD_FAILED, "%s could not be written: %s", file, strerror(errno));
    if (descriptor >= 0) unlink(part);
    return false;
}

/* The member `key` of `object`, made from `fresh` where there is none; NULL where `most` are there already. */
static json_t *member(json_t *object, const char *key, json_t *fresh, size_t most)
{
    json_t *found = json_object_get(object, key);
    if (found || json_object_size(object) >= most) {
        json_decref(fresh);
        return found;
    }
    json_object_set_new(object, key, fresh);
    return fresh;
}

static void count(json_t *item, const char *what)
{
    json_object_set_new(item, what, json_integer(json_integer_value(json_object_get(item, what)) + 1));
}

static const char *take_item(json_t *learner, const char *exercise, const char *event, long number, long now)
{
    json_t *fresh = json_pack("{s:i, s:i, s:b, s:I}", "tries", 0, "hints", 0, "passed", 0, "when", (json_int_t)now);
    json_t *item = member(json_object_get(learner, "items"), exercise, fresh, STATE_ITEMS);
    if (!item) return "a learner has at most 200 exercises";
    json_object_set_new(item, "when", json_integer(now));
    json_object_set_new(learner, "at", json_string(exercise));
    if (strcmp(event, "hint") == 0) {
        if (number > json_integer_value(json_object_get(item, "hints")))
            json_object_set_new(item, "hints", json_integer(number));
        return NULL;
    }
    count(item, "tries");
    if (strcmp(event, "passed") == 0) {
        json_object_set_new(item, "passed", json_true());
        json_object_set_new(learner, "waiting", json_false());
    }
    return NULL;
}

static bool known_event(const char *event)
{
    const char *const known[] = {"tried", "passed", "hint", "waiting", "served"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(event, known[i]) == 0) return true;
    }
    return false;
}

const char *state_take_event(json_t *state, const json_t *event, long now)
{
    const char *name, *exercise = "", *what;
    json_int_t number = 0;
    if (json_unpack((json_t *)event, "{s:s, s?s, s:s, s?I}", "learner", &name, "exercise", &exercise, "event", &what,
                    "number", &number) != 0)
        return "wanted learner, exercise and event as strings, and number as a whole number";
    if (!board_good_name(name)) return "a learner's name has 1 to 40 bytes and no control characters";
    if (!known_event(what)) return "an event is tried, passed, hint, waiting or served";
    bool hand = strcmp(what, "waiting") == 0 || strcmp(what, "served") == 0;
    if (!hand && !board_good_name(exercise)) return "an exercise's name has 1 to 40 bytes and no control characters";
    if (number < 0 || number > 100) return "a hint's number is from 0 to 100";
    json_t *fresh = json_pack("{s:I, s:b, s:s, s:{}}", "seen", (json_int_t)now, "waiting", 0, "at", "", "items");
    json_t *learner = member(json_object_get(state, "learners"), name, fresh, STATE_LEARNERS);
    if (!learner) return "a board has at most 500 learners";
    json_object_set_new(learner, "seen", json_integer(now));
    if (hand) {
        json_object_set_new(learner, "waiting", json_boolean(strcmp(what, "waiting") == 0));
        return NULL;
    }
    return take_item(learner, exercise, what, (long)number, now);
}

const char *state_add_message(json_t *state, const json_t *message, long now)
{
    const char *text = json_string_value(json_object_get(message, "text"));
    json_t *all = json_object_get(state, "messages");
    if (!text || !*text || strlen(text) > STATE_TEXT) return "a message is a text of 1 to 4000 bytes";
    if (json_array_size(all) >= STATE_MESSAGES) json_array_remove(all, 0);
    size_t size = json_array_size(all);
    json_int_t id = size ? json_integer_value(json_object_get(json_array_get(all, size - 1), "id")) + 1 : 1;
    json_array_append_new(all, json_pack("{s:I, s:s, s:I}", "id", id, "text", text, "when", (json_int_t)now));
    return NULL;
}

char *state_for_instructor(const json_t *state, json_t *ring)
{
    json_t *shown = json_pack("{s:O, s:O, s:o, s:I}", "learners", json_object_get(state, "learners"), "messages",
                              json_object_get(state, "messages"), "ring", ring, "now", (json_int_t)time(NULL));
    char *text = shown ? json_dumps(shown, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(shown);
    return text;
}

char *state_messages_after(const json_t *state, long id)
{
    json_t *later = json_array(), *message;
    size_t i;
    json_array_foreach(json_object_get(state, "messages"), i, message)
    {
        if (json_integer_value(json_object_get(message, "id")) > id) json_array_append(later, message);
    }
    char *text = json_dumps(later, JSON_COMPACT);
    json_decref(later);
    return text;
}

/* Quoted as RFC 4180 says. A text that a spreadsheet would take for a formula gets an apostrophe before it. */
static void put_field(FILE *out, const char *text)
{
    fputs(strchr("=+-@", *text) && *text ? "\"'" : "\"", out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_row(FILE *out, const char *learner, const char *exercise, const json_t *item)
{
    char when[40] = "";
    time_t at = (time_t)json_integer_value(json_object_get(item, "when"));
    struct tm utc;
    if (gmtime_r(&at, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    put_field(out, learner);
    fputc(',', out);
    put_field(out, exercise);
    fprintf(out, ",%d,%d,%d,%s\r\n", json_is_true(json_object_get(item, "passed")),
            (int)json_integer_value(json_object_get(item, "tries")),
            (int)json_integer_value(json_object_get(item, "hints")), when);
}

char *state_as_csv(const json_t *state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    fputs("learner,exercise,passed,tries,hints,when\r\n", out);
    const char *name, *exercise;
    json_t *learner, *item;
    json_object_foreach(json_object_get(state, "learners"), name, learner)
    {
        json_object_foreach(json_object_get(learner, "items"), exercise, item) put_row(out, name, exercise, item);
    }
    fclose(out);
    return text;
}
