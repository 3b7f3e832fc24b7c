/* Expressions for lldb, which knows locals and types but not the session: its variables are only storage there, its
 * functions stubs, its macros nothing. Read first: cells/symbols.h. */
#ifndef KERNEL_DEBUG_EXPRESSION_H
#define KERNEL_DEBUG_EXPRESSION_H

#include "cells/symbols.h"

struct build;
struct unit;

/* Renames the types of a unit so that no library has a type of the same name: lldb would take a library's
 * `struct point` for the cell's. */
void name_types(const struct build *b, struct unit *u);

/* Undoes that renaming in what lldb says. The caller frees. */
char *plain_words(const symbols *known, const char *said);

/* The expression with the session's names replaced by what lldb understands, but for `locals`, which hide them. The
 * caller frees. */
char *expression_for_lldb(const symbols *known, const char *expression, const names *locals);

/* A session variable in lldb's terms; NULL for what is none. The caller frees. */
char *variable_for_lldb(const entity *e);

#endif
