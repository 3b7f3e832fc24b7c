/* A source line with what clang says of it under it: ranges, a caret, and the fix-its, in the columns in which a
 * terminal or a notebook shows the line. A long line is cut around the caret. Read first: nothing. */
#ifndef KERNEL_DIAGNOSTICS_EXCERPT_H
#define KERNEL_DIAGNOSTICS_EXCERPT_H

#include "cells/text.h"

typedef struct span {
    size_t begin, end; /* bytes of the line, from 0 */
} span;

typedef struct insertion {
    size_t at; /* byte of the line, from 0 */
    char *text;
} insertion;

typedef struct excerpt {
    unsigned line;      /* its number */
    const char *source; /* the line, borrowed */
    size_t caret;       /* byte of the line, from 0 */
    span *ranges;       /* owned */
    size_t range_count, range_capacity;
    insertion *insertions; /* owned, with their texts */
    size_t insertion_count, insertion_capacity;
} excerpt;

void excerpt_add_range(excerpt *e, size_t begin, size_t end);
void excerpt_add_insertion(excerpt *e, size_t at, const char *words);
void excerpt_print(const excerpt *e, text *into);
void excerpt_free(excerpt *e);

/* Characters in the first `bytes` bytes of UTF-8. */
size_t characters_in(const char *line, size_t bytes);

#endif
