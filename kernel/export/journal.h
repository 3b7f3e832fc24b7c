/* The code that cells have run, in order, of which %export makes a program's main(). A cell that failed is not in it;
 * of cells with the same text only the last is. Read first: cells/text.h. */
#ifndef KERNEL_EXPORT_JOURNAL_H
#define KERNEL_EXPORT_JOURNAL_H

#include "cells/text.h"

/* A stretch of a cell's C, or a line that is not C. */
typedef struct stretch {
    bool comment;       /* a magic: `code` is what was written */
    char *code;
    names variables;    /* "name=type" of those it defined */
    const char *format; /* of printf, for its trailing expression; NULL: none that is so simple */
} stretch;

typedef struct journal_cell {
    char *source; /* of the whole cell */
    char *name;   /* "In[3]" */
    stretch *items;
    size_t count, capacity;
} journal_cell;

typedef struct journal {
    journal_cell *items;
    size_t count, capacity;
    journal_cell current; /* the cell that runs */
    bool open;     /* a cell runs that is to be kept */
    unsigned paused; /* code of a magic's own runs now: it is not kept */
} journal;

void journal_begin(journal *j, const char *source, const char *name);
void journal_end(journal *j, bool failed);
void journal_code(journal *j, const char *code);
void journal_comment(journal *j, const char *line, size_t size);
/* Of the last stretch of C. */
void journal_variable(journal *j, const char *name, const char *type);
void journal_value(journal *j, const char *format);
void journal_clear(journal *j);

#endif
