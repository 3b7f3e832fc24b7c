/* The class's board: which checks each learner has passed, at which hint somebody is stuck, and who waits for help.
 *
 * The instructor starts `kolo-board serve`. A learner who wants to be seen joins with the URL that the server prints;
 * nobody is on the board otherwise. Learners send the names of exercises and what became of them, never code. Read
 * state.h, then server.c; learner.c is the other end. */
#ifndef KOLO_BOARD_BOARD_H
#define KOLO_BOARD_BOARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { BOARD_OK, BOARD_FAILED, BOARD_WRONG_USE };

/* Prints "kolo-board: " and a sentence on stderr, and returns `code`. */
__attribute__((format(printf, 2, 3))) int board_say(int code, const char *format, ...);

/* Serves the class whose state is in `file`, which is created if it does not exist. Ends at SIGINT or SIGTERM. */
int board_serve(const char *file, const char *address, int port);
/* The page that shows the board; it asks for the state every two seconds. */
extern const char board_page[];

/* The instructor's calls. `url` is the instructor's. */
int board_push(const char *url, const char *text);
int board_results(const char *url);

/* The learner's calls. send and news do nothing before join. */
int board_join(const char *url, const char *learner);
int board_leave(void);
int board_send(const char *exercise, const char *event, int number);
int board_news(void);

/* One HTTP request: POSTs `body` (a GET where it is NULL) within `seconds`. The caller frees the answer. On failure
 * NULL, and the reason in `why`. */
char *board_request(const char *url, const char *path, const char *body, double seconds, char why[static 200]);

/* What a name may be: 1 to 40 bytes of UTF-8 without control characters. */
bool board_good_name(const char *name);

#endif
