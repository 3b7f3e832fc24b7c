/* Diagnostics of the kernel's own, beside clang's. Read first: diagnostic.h. */
#ifndef KERNEL_DIAGNOSTICS_ADD_H
#define KERNEL_DIAGNOSTICS_ADD_H

#include "cells/split.h"
#include "diagnostics/diagnostic.h"

/* A warning, or with an empty message a hint alone; the cell's as a whole until a place is set. */
diagnostic *diagnostic_add(diagnostics *all, const char *cell_name, const char *message, const char *hint);
void diagnostic_set_place(diagnostic *d, const cell *c, const token *t);

#endif
