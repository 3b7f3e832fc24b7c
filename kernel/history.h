/* The executed cells of all sessions, in a file of JSON lines: [session, line, source, shown value or null].
 * Kernels that run at the same time share the file: each line is written under a lock, in one piece, and a session's
 * number is taken by writing [session, 0, ""]. A line that is no such array is passed over, and a file that cannot be
 * read or written costs nothing but the memory of earlier sessions. Read first: nothing. */
#ifndef KERNEL_HISTORY_H
#define KERNEL_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct history {
    json_t *entries; /* array of [session, line, source, shown], in the file's order */
    long session;    /* this session's number */
    char *path;      /* NULL: not kept */
    off_t read;      /* bytes of the file that are among the entries */
} history;

void history_open(history *h, const char *path);
void history_close(history *h);
/* shown: the text of the cell's value, or NULL. */
void history_add(history *h, long line, const char *source, const char *shown);
/* The content of a history_reply, from the content of a history_request. */
json_t *history_answer(history *h, const json_t *request);

#endif
