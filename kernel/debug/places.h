/* Where code is, for the front end and for the debug information: a cell's path and "In[3]"; the breakpoints asked for.
 * One thread at a time. Read first: debugger.h. */
#ifndef KERNEL_DEBUG_PLACES_H
#define KERNEL_DEBUG_PLACES_H

#include "cells/text.h"

#include <jansson.h>
#include <stdint.h>

enum { HASH_SEED = 0x1c0de };

typedef struct cell_place {
    char *name, *path, *code; /* name: NULL for a cell that has not run yet */
} cell_place;

typedef struct places {
    char *prefix; /* of cells' paths, which are names only: there are no such files */
    cell_place *items; /* in the order in which they came */
    size_t count, capacity;
    json_t *breakpoints; /* path: list of {line, condition, …}, as the front end asked */
} places;

#define PLACES_SUFFIX ".c"

/* folder: the session's, for a name that other sessions do not have. */
void places_open(places *p, const char *folder);
void places_close(places *p);

/* Notes a cell; `name` NULL: it has not run. Its place. */
const cell_place *places_add(places *p, const char *name, const char *code);
/* The newest place of that name, or of that path; NULL: none. */
const cell_place *place_named(const places *p, const char *name);
const cell_place *place_at(const places *p, const char *path);

#endif
