/* A full stack: how the handler of the fault knows it, and the room that it needs to leave the cell. Read first:
 * worker.h. */
#ifndef KERNEL_WORKER_OVERFLOW_H
#define KERNEL_WORKER_OVERFLOW_H

#include <stdbool.h>
#include <ucontext.h>

/* Called from a fault's handler: was it the access to `address` that the stack had no room for? */
bool overflow_happened(const ucontext_t *context, const void *address);
/* More room for the cell's stack, until the next cell: a library's function that has come to the end can finish.
 * False: there is none, or it has been given before. */
bool overflow_reserve(void);
/* The stack on which the main thread's handlers run; other threads': threads.c. */
void overflow_take_handler_stack(void);

#endif
