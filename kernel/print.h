/* The kernel prints on the cell's own streams. Read first: session.h. */
#ifndef KERNEL_PRINT_H
#define KERNEL_PRINT_H

#include "session.h"

void print_out(session *s, const char *words);
void print_error(session *s, const char *words);

#endif
