/* A unit's text: what is written between the cell's own lines, and ranges of the cell's tokens at their lines and
 * columns. Read first: unit.h. */
#ifndef KERNEL_CELLS_WRITER_H
#define KERNEL_CELLS_WRITER_H

#include "cells/unit.h"

typedef struct writer {
    parsed_cell *cell;
    const symbols *session;
    unit *out;
    value_form value;
    bool assembled; /* the unit will be compiled, not only analysed */
} writer;

extern const char glue_line[]; /* before what is no line of the cell's */

/* Code of the kernel's own. */
void glue(writer *w, const char *code);
/* Blanks up to the column that byte `at` of the cell stands in. */
void pad_to(writer *w, size_t at);
/* To the line and column of a token. */
void move_to(writer *w, size_t at_token);

typedef struct range_options {
    bool drop_storage;  /* blank `static`, `inline`, … among the first tokens */
    bool drop_bodies;   /* of structs: their members were emitted before */
    size_t tag_after;   /* insert `tag` after this token */
    const char *tag;
    size_t number_after; /* insert `number` after this token */
    size_t number;
    bool keep_literals; /* compound literals outlive the cell: they get storage of their own */
    bool but_first;     /* ... except one that is the whole range */
    size_t name;        /* note where this token lands ... */
    size_t *offset;     /* ... here */
} range_options;

/* Copies tokens [first, last) with all that stands between them, at their lines and columns. */
void add_range(writer *w, size_t first, size_t last, range_options o);

#endif
