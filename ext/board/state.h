/* What the server knows of a class, as JSON:
 *   {"learner_key": "…", "instructor_key": "…",
 *    "learners": {"ada": {"seen": 1700000000, "waiting": false, "at": "3.a",
 *                         "items": {"3.a": {"tries": 2, "hints": 1, "passed": true, "when": 1700000000}}}},
 *    "messages": [{"id": 1, "text": "…", "when": 1700000000}]}
 * Times are seconds since 1970. The file is written whole after each change, and only its owner can read it, since the
 * keys are in it. */
#ifndef KOLO_BOARD_STATE_H
#define KOLO_BOARD_STATE_H

#include <jansson.h>
#include <stdbool.h>

enum { STATE_LEARNERS = 500, STATE_ITEMS = 200, STATE_MESSAGES = 200, STATE_TEXT = 4000 };

/* The class in `file`, or a new one with fresh keys; NULL after a sentence on stderr. */
json_t *state_open(const char *file);
/* False after a sentence on stderr. The old file is kept then. */
bool state_save(const json_t *state, const char *file);

/* Takes what a learner sent: {"learner": …, "exercise": …, "event": "tried|passed|hint|waiting|served", "number": …}.
 * NULL, or a sentence that says why it was refused. */
const char *state_take_event(json_t *state, const json_t *event, long now);
/* Adds a message for all learners; NULL, or why not. */
const char *state_add_message(json_t *state, const json_t *message, long now);

/* What each is shown. The caller frees all of them. `ring` is ring_shown()'s, and is released. */
char *state_for_instructor(const json_t *state, json_t *ring);
char *state_messages_after(const json_t *state, long id);
/* A line for each learner and exercise: learner,exercise,passed,tries,hints,when. */
char *state_as_csv(const json_t *state);

#endif
