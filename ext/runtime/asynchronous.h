/* The asynchronous calls of kolo.h: each is a request of the ranks' queue (comm/queue.h) with a handle. */
#ifndef KOLO_RUNTIME_ASYNCHRONOUS_H
#define KOLO_RUNTIME_ASYNCHRONOUS_H

#include "runtime/runtime.h"

/* Ends the public call that starts `run` with these arguments, which this function takes over: memory of malloc(), or
 * NULL if there was none. checked: a failure of the arguments; then nothing is started. Returns the handle, or 0. */
kolo_handle kolo_asynchronous_leave(kolo_scope scope, kolo_status checked,
                                    kolo_status (*run)(const void *args, kolo_type type), void *args, kolo_type type);
/* A copy of the arguments for it. */
void *kolo_asynchronous_copy(const void *args, size_t bytes);

#endif
