/* clang's diagnostics of a unit, as the cell's author should see them: in the order of the cell's lines, each once,
 * without those that only follow from an earlier one, and without anything of the wrapping. Read first: diagnose.h. */
#ifndef KERNEL_DIAGNOSTICS_DIAGNOSTIC_H
#define KERNEL_DIAGNOSTICS_DIAGNOSTIC_H

#include "diagnostics/diagnose.h"

typedef struct place {
    char *name;            /* "In[3]", or a file; "" when there is no place */
    unsigned line, column; /* from 1; the column in bytes; line 0: the cell as a whole */
} place;

typedef struct diagnostic {
    CXDiagnostic clang; /* NULL: it is lint.h's */
    enum CXDiagnosticSeverity severity;
    place at;
    char *message;    /* in plain words */
    char *hint;       /* NULL: hints.h may have one */
    bool other_meant; /* clang's own guess at the name that was meant has been dropped */
    bool internal;    /* found in the wrapping */
    bool hidden;
} diagnostic;

typedef struct diagnostics {
    diagnostic *items;
    size_t count, capacity;
} diagnostics;

diagnostics diagnostics_of(analyser *a, const char *cell_name, source_line line, void *closure, const symbols *session);
void diagnostics_free(diagnostics *all);

/* Where the author wrote it. For code in a macro's argument that is the argument's place, not the macro's. */
place place_of(CXSourceLocation location);
void place_free(place *p);

/* Is it about the kernel's own lines around the cell, or does it name them? */
bool internal_place(const place *p);
bool internal_text(const char *message);

/* The byte of a text at which a line and a column (both from 1) stand. */
size_t offset_in(const char *source, unsigned line, unsigned column);

#endif
