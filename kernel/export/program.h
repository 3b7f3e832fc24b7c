/* The session as one C program: its present definitions in an order that compiles, and a main() that runs the cells'
 * statements. Read first: journal.h, cells/symbols.h. */
#ifndef KERNEL_EXPORT_PROGRAM_H
#define KERNEL_EXPORT_PROGRAM_H

#include "session.h"

typedef struct program {
    session *s;
    text types, prototypes, variables, functions, cells, body;
    entity **all; /* the session's */
    size_t count, capacity;
    entity **done; /* those that are written */
    size_t done_count, done_capacity;
    names renamed;   /* "n=n_2": what an earlier cell's variable of another type is called from here on */
    names given;     /* names of variables that have been set so far */
    names moving;    /* macros that mean different things in different cells */
    unsigned renames;
    bool uses_print, uses_memory;
} program;

/* The whole text, the caller's. */
char *program_of(session *s);

/* program_main.c: what the cells ran, into `cells` and `body`. */
void write_cells(program *p);

/* The type without the const that forbids setting it once more. */
char *settable_type(const char *type);

#endif
