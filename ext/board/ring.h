/* A ring: as many learners as the instructor has asked for start the same program, and become the ranks of one job.
 *
 * The instructor opens it with a size and a command. Each learner's `kolo-board ring COMMAND` says every half second
 * that it waits, and at which port its rank will listen. When there are enough, all of them get the same list of
 * addresses and the same key, and each its rank. The next learners that come form the next ring.
 *
 * A ring is kept in memory alone: its keys are in no file, and a board that is started again has none open. */
#ifndef KOLO_BOARD_RING_H
#define KOLO_BOARD_RING_H

#include <jansson.h>

enum { RING_MOST = 64, RING_COMMAND = 1000, RING_SILENCE_SECONDS = 15 };

/* Where a request came from: the learner's address, and the board's own as that learner reaches it. */
typedef struct {
    char learner[64], board[64];
} ring_path;

/* {"size": …, "command": …} of the instructor; replaces *ring. NULL, or why not. */
const char *ring_open(json_t **ring, const json_t *wanted);
/* The line that learners run, from malloc. */
char *ring_line(const json_t *ring);

/* Takes {"learner", "ticket", "port", "command"} of a learner who waits, or with "leave": true no longer waits. The
 * ticket is a random word of the learner's process. Sets *reply, which the caller releases: {"size", "there": [names]},
 * or, once the ring is complete, {"rank", "first": rank 0's learner, "addresses": [...], "key"}. NULL, or why the
 * learner is refused, which is in `why` or constant. */
const char *ring_take(json_t *ring, const json_t *request, const ring_path *path, long now, json_t **reply,
                      char why[static 1200]);

/* What the instructor's page shows: {"size", "command", "there": [names], "started": how many rings}; null if no ring
 * is open. */
json_t *ring_shown(json_t *ring, long now);

#endif
