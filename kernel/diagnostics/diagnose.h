/* clang's messages as clang prints them, with the cell's own lines: "In[3]:2:5: error: …", the source line, a caret,
 * fix-its and notes, in colour. Nothing of the wrapping shows. Read first: analyser.h. */
#ifndef KERNEL_DIAGNOSTICS_DIAGNOSE_H
#define KERNEL_DIAGNOSTICS_DIAGNOSE_H

#include "cells/analyser.h"
#include "cells/symbols.h"

/* Finds line `line` of the source called `name` ("In[3]"), or the whole of it when `line` is 0; a copy, or NULL. */
typedef char *(*source_line)(void *closure, const char *name, unsigned line);

/* The fate of an earlier cell: RESET, it ran before the last %reset; UNKNOWN, it is no cell of C. */
typedef enum cell_fate { FATE_UNKNOWN, FATE_RAN, FATE_FAILED, FATE_RESET } cell_fate;
typedef cell_fate (*fate_finder)(void *closure, const char *cell_name);

typedef struct diagnosis {
    text rendered;     /* every message */
    char *first_error; /* "In[3]:2:5: use of undeclared identifier 'x'", plain; NULL when there was no error */
    unsigned errors, warnings;
} diagnosis;

diagnosis diagnose(analyser *a, const char *cell_name, source_line line, fate_finder fate_of, void *closure,
                   const symbols *session);
void diagnosis_free(diagnosis *d);

#endif
