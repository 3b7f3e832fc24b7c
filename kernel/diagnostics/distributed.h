/* Warns of errors between ranks that run the same code, as far as the text shows them: a collective that only some
 * ranks reach, a receive without its send, training that does not start with equal weights. It looks at tokens alone,
 * so that it costs next to nothing, and is silent where it cannot tell. Read first: diagnostic.h, cells/split.h. */
#ifndef KERNEL_DIAGNOSTICS_DISTRIBUTED_H
#define KERNEL_DIAGNOSTICS_DISTRIBUTED_H

#include "cells/split.h"
#include "cells/symbols.h"
#include "diagnostics/diagnostic.h"

void lint_distributed(diagnostics *all, const char *cell_name, const cell *c, const symbols *session);

#endif
