/* Expands macros before a cell is split: those that stand for declarations, as DEFINE_STACK(int) does, and those that a
 * cell defines and undefines again, as lists of X(…) do. Read first: split.h, symbols.h. */
#ifndef KERNEL_CELLS_EXPAND_H
#define KERNEL_CELLS_EXPAND_H

#include "cells/symbols.h"

/* A copy of the cell in which uses of the first kind, and declarations and functions that depend on the second kind,
 * are replaced by what they stand for, on the same lines: what is declared is the session's, and does not change when
 * the macro's next use gives it another meaning. `folder`: for temporary files. NULL when there is none. The caller
 * frees.
 */
char *with_declarations_expanded(const char *source, const symbols *session, const char *folder);

#endif
