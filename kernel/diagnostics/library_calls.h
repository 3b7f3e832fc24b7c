/* Calls of libkolo's macros that clang cannot tell of in the caller's words: see library_calls.c. */
#ifndef KERNEL_DIAGNOSTICS_LIBRARY_CALLS_H
#define KERNEL_DIAGNOSTICS_LIBRARY_CALLS_H

#include "diagnostics/diagnostic.h"
#include "cells/split.h"

/* In libkolo's header, whose declarations behind the macros are nothing to a cell's author. */
bool library_place(const place *p);
/* "kolo_allreduce takes (values, count); ?kolo_allreduce says more". */
void mend_library_calls(diagnostics *all, const analyser *a, const cell *c);

#endif
