/* What was executed, kept across sessions in a file of JSON lines. Read first: nothing. */
#ifndef KERNEL_HISTORY_H
#define KERNEL_HISTORY_H

#include <jansson.h>
#include <stdbool.h>

typedef struct history {
    json_t *entries; /* array of [session, line, source] */
    long session;    /* this session's number */
    char *path;      /* NULL: not kept */
} history;

void history_open(history *h, const char *path);
void history_close(history *h);
void history_add(history *h, long line, const char *source);
/* The content of a history_reply. */
json_t *history_answer(const history *h, const json_t *request);

#endif
