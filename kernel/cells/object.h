/* Link names in a compiled cell. The compiler knows a function as `f`; the object that is loaded must call the stub
 * `f$1` and define `f$1$7` (symbols.h says why). Rewriting the object's symbol table does it, with no trick in the C:
 * __func__, messages and debug information keep the plain name. */
#ifndef KERNEL_CELLS_OBJECT_H
#define KERNEL_CELLS_OBJECT_H

#include "cells/text.h"

typedef struct link_name {
    const char *name;       /* in C */
    const char *link;       /* what references become */
    const char *definition; /* what its definition becomes; NULL where this object does not define it */
} link_name;

/* Rewrites the ELF64 relocatable object in place. The names it needs from elsewhere go to `wanted` (plain C names and
 * library names, not the session's). False, with the file untouched, when it is no such object. */
bool object_rename(const char *path, const link_name *table, size_t count, names *wanted);

/* The assembler lines of a function's stub and of a variable. */
void stub_of(const char *link, text *into);
void storage_of(const char *link, size_t size, size_t align, text *into);

#endif
