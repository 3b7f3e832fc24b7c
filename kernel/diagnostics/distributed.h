/* What goes wrong when several ranks run the same code, as far as the text shows it: a collective that only some of
 * them reach, a receive that nobody sends to, training that does not start equal. By tokens alone, so that it costs
 * nothing; it is silent where it cannot tell. Read first: diagnostic.h, cells/split.h. */
#ifndef KERNEL_DIAGNOSTICS_DISTRIBUTED_H
#define KERNEL_DIAGNOSTICS_DISTRIBUTED_H

#include "cells/split.h"
#include "cells/symbols.h"
#include "diagnostics/diagnostic.h"

void lint_distributed(diagnostics *all, const char *cell_name, const cell *c, const symbols *session);

#endif
