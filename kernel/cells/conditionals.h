/* #if at the top of a cell: which of its lines the preprocessor drops. Read first: analyser.h. */
#ifndef KERNEL_CELLS_CONDITIONALS_H
#define KERNEL_CELLS_CONDITIONALS_H

#include "cells/symbols.h"

/* A copy of the cell in which the lines that #if leaves out, and the conditional directives themselves, are blank: same
 * lines, same columns. NULL when there is no conditional in it, or it is not balanced (clang will say so). */
char *without_conditionals(const char *source, const char *prefix, const symbols *session, const names *flags);

#endif
