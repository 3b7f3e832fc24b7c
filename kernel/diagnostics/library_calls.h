/* Messages about calls of libkolo's macros: clang's own messages name the code that the macros expand to. */
#ifndef KERNEL_DIAGNOSTICS_LIBRARY_CALLS_H
#define KERNEL_DIAGNOSTICS_LIBRARY_CALLS_H

#include "diagnostics/diagnostic.h"
#include "cells/split.h"

/* Is the place in a header of libkolo's? A cell's author has no use for the declarations behind its macros. */
bool library_place(const place *p);
/* "kolo_allreduce takes (values, count); ?kolo_allreduce says more". */
void mend_library_calls(diagnostics *all, const analyser *a, const cell *c);

#endif
