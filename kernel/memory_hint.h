/* Advice after a fault or an abort whose cause lies in the memory. Read first: session.h, exit_status.h. */
#ifndef KERNEL_MEMORY_HINT_H
#define KERNEL_MEMORY_HINT_H

#include "exit_status.h"
#include "session.h"

/* A sentence, or NULL. `e`: of the session's own worker. To be asked before a new worker takes its place. */
const char *memory_hint(const session *s, const exit_status *e);

#endif
