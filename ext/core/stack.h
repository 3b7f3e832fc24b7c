/* Growing the stack before it is needed, because the system ends a process whose stack cannot grow. */
#ifndef KOLO_CORE_STACK_H
#define KOLO_CORE_STACK_H

#include "core/error.h"

/* Grows the calling thread's stack to the size that the sums of microbatches need. Fails if memory is out. */
kolo_status kolo_stack_grow(void);

#endif
