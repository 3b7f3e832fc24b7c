/* Values of the session's variables while a cell runs. */
#ifndef KERNEL_VALUES_RUNNING_H
#define KERNEL_VALUES_RUNNING_H

#include "session.h"

/* The memory of the session's worker, read without its help. A value that the cell is just writing may be torn. */
memory running_memory(session *s);
/* Where the variable of that link name is. False when it cannot be found, as in a container that hides mappings. */
bool running_address(session *s, const char *link, uint64_t *address);

#endif
