/* The `static` variables of functions keep their values when the functions are compiled again. */
#ifndef KERNEL_WORKER_STATICS_H
#define KERNEL_WORKER_STATICS_H

#include "worker/protocol.h"

/* Of the object at `path`, just loaded as `handle`; slots and definitions as MESSAGE_LOAD has them. */
void statics_take(const char *path, void *handle, const char *slots, size_t size);

#endif
