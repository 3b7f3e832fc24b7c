/* The definitions that must stand before a type in C. Read first: symbols.h. */
#ifndef KERNEL_CELLS_NEEDS_H
#define KERNEL_CELLS_NEEDS_H

#include "cells/lexer.h"
#include "cells/symbols.h"

/* Fills `uses` and `forward_dependencies` of a type from its tokens; the names of its members, and its own, are no
 * uses. */
void type_needs(entity *type, const char *source, const token *tokens, size_t first, size_t last);

/* Is it enough that the tag is declared? */
bool declaration_suffices(const entity *type, const char *tag);

/* Is it `struct node;`, a declaration without members? */
bool only_declares(const entity *type);

#endif
