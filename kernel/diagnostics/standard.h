/* Which header of the C library (or Kolo, or MPI) declares a name: found by parsing them once, when first asked.
 * Read first: analyser.h. */
#ifndef KERNEL_DIAGNOSTICS_STANDARD_H
#define KERNEL_DIAGNOSTICS_STANDARD_H

#include "cells/analyser.h"

typedef struct standard standard;

/* "math.h" for "sqrt"; NULL when no such header declares the name. Valid until the analyser is closed. */
const char *standard_declaring(analyser *a, const char *name);

/* The header whose name is nearest to a misspelt one, NULL when none is near; the caller frees. */
char *standard_nearest(analyser *a, const char *file);

/* Calls `visit` for every name that a header declares and that begins with `start`. */
void standard_each(analyser *a, const char *start, void (*visit)(const char *name, const char *header, void *closure),
                   void *closure);

void standard_free(standard *h);

#endif
