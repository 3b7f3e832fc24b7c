/* The text of the session's cells, and the fate of each, for diagnose.h: `closure` is the session. Read first:
 * session.h, diagnostics/diagnose.h. */
#ifndef KERNEL_SOURCES_H
#define KERNEL_SOURCES_H

#include "diagnostics/diagnose.h"
#include "session.h"

/* A line of a cell or a file; line 0: all of it. NULL: there is no such text. The caller frees. */
char *source_line_of(void *closure, const char *name, unsigned line);
cell_fate fate_of(void *closure, const char *cell_name);

#endif
