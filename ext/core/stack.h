/* Room on the stack, before it is needed: the system ends a process whose stack cannot grow. */
#ifndef KOLO_CORE_STACK_H
#define KOLO_CORE_STACK_H

#include "core/error.h"

/* What sums of microbatches need on the stack of the thread that calls. Fails with a sentence when memory is out. */
kolo_status kolo_stack_grow(void);

#endif
