/* `#pragma pack` from cell to cell: the lines that are in force at the end of the last one, outermost first.
 * Read first: symbols.h. */
#ifndef KERNEL_CELLS_PACKING_H
#define KERNEL_CELLS_PACKING_H

#include "cells/text.h"

/* Is this preprocessor line `#pragma pack`? */
bool packing_line(const char *line, size_t size);

/* Follows one such line. */
void packing_take(names *lines, const char *line, size_t size);

#endif
