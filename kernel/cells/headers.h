/* The user's own headers, `#include "util.h"`: their text becomes part of the cell that includes them, so that what
 * they define is the session's and a changed header is a change like any other. System headers, and those of libraries,
 * stay includes. Read first: symbols.h. */
#ifndef KERNEL_CELLS_HEADERS_H
#define KERNEL_CELLS_HEADERS_H

#include "cells/symbols.h"

/* From line `first` of a cell with its headers on, lines are those of `file`, from `line` on. */
typedef struct origin {
    unsigned first;
    char *file;
    unsigned line;
} origin;

/* Where the lines of such a cell come from, and what was taken in. */
typedef struct origins {
    origin *items;
    size_t count, capacity;
    names paths;  /* of the headers taken in */
    names pieces; /* "path\npiece": for symbols_headers, when the cell is committed */
    bool at_ranks; /* the cell runs on the ranks */
} origins;

/* A copy of the cell with its headers' text in place of their includes; pieces that the session has from the same
 * header already are blank. A header that only cells for the ranks have included has its values there alone, so a cell
 * that runs here defines it again. `name` is how messages call the cell. NULL when it includes none. The caller frees.
 */
char *with_headers(const char *source, const char *name, symbols *session, origins *from);

/* The file that a line of the cell comes from, and its line there; `name` where there are no origins. */
const char *origin_of(const origins *from, const char *name, unsigned line, unsigned *there);

/* Has the session taken in a header whose path ends in this file name? */
bool is_header(const symbols *session, const char *name);

/* Remembers what the session has from its headers now. */
void commit_headers(const origins *from, symbols *session);
/* A new worker has lost all variables: the next cell that includes a header defines all of it again, with its initial
 * values. Which files are headers stays known. */
void headers_lost(symbols *session);
void origins_free(origins *from);

#endif
