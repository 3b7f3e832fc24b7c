/* The class's board: which checks each learner has passed, at which hint somebody is stuck, and who waits for help.
 *
 * The instructor starts `kolo-board serve`. A learner who wants to be seen joins with the URL that the server prints;
 * nobody is on the board otherwise. Learners send the names of exercises and what became of them, never code. Read
 * state.h, then server.c; learner.c is the other end. ring.h lets learners' programs become one job. */
#ifndef KOLO_BOARD_BOARD_H
#define KOLO_BOARD_BOARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { BOARD_OK, BOARD_FAILED, BOARD_WRONG_USE };

/* Prints "kolo-board: " and a sentence on stderr, and returns `code`. */
__attribute__((format(printf, 2, 3))) int board_say(int code, const char *format, ...);

/* Serves the class whose state is in `file`, which is created if it does not exist. Ends at SIGINT or SIGTERM. `host`
 * is this machine's name in the URLs that it prints; NULL: its address. */
int board_serve(const char *file, const char *address, const char *host, int port);
/* The page that shows the board; it asks for the state every two seconds. */
extern const char board_page[];

/* The instructor's calls. `url` is the instructor's. */
int board_push(const char *url, const char *text);
/* `from` is the board's URL or its file. */
int board_results(const char *from);
/* Opens a ring (ring.h) of `size` learners, and pushes the line that they run. */
int board_open(const char *url, int size, const char *command);

/* The learner's calls. Before join send does nothing, and the others say so. */
int board_join(const char *url, const char *learner);
int board_leave(void);
int board_send(const char *exercise, const char *event, int number);
int board_news(void);
/* Shows on the board that the learner waits for help, or no longer does. */
int board_hand(bool up);
/* Waits for a place in the ring, and then runs `words`, a program and its arguments, as a rank. The rank listens at
 * `port`, or at a free one where that is negative. Its steps take `slow` times as long, if that is not 0. Returns only
 * on failure. */
int board_ring(int port, double slow, char *const *words);
/* The board and the name that join has noted, from malloc; false before join. */
bool board_learner(char **url, char **learner);

/* One HTTP request: POSTs `body` (a GET where it is NULL) within `seconds`. The caller frees the answer. On failure
 * NULL, and the reason in `why`. */
char *board_request(const char *url, const char *path, const char *body, double seconds, char why[static 200]);

/* What a name may be: 1 to 40 bytes of UTF-8 without control characters. */
bool board_good_name(const char *name);

enum { BOARD_RANDOM = 32 }; /* bytes */
/* So many random bytes, at most BOARD_RANDOM, as hexadecimal digits; NULL on failure. */
json_t *board_random(size_t bytes);

#endif
