/* Diagnostics for beginners that clang does not give: an `if` or a loop that ends at once, a variable that a cell
 * defines twice, a whole-number division whose result becomes a double, a main() that nothing calls. Read first:
 * diagnostic.h.
 */
#ifndef KERNEL_DIAGNOSTICS_LINT_H
#define KERNEL_DIAGNOSTICS_LINT_H

#include "diagnostics/diagnostic.h"
#include "cells/split.h"

/* Adds to what clang found in a cell without errors. */
void lint(diagnostics *all, const analyser *a, const char *cell_name, const cell *c);

/* Was a program of %%run parsed last, and no cell? */
bool whole_program(const analyser *a);

#endif
