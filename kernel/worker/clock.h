/* How long a cell took: wall time, and the processor time of the worker and of what it waited for. */
#ifndef KERNEL_WORKER_CLOCK_H
#define KERNEL_WORKER_CLOCK_H

#include <time.h>

#include "worker/protocol.h"

double seconds_on(clockid_t clock);

void clock_begin(void);
void clock_end(void);
/* Puts the last measurement into a message. */
void clock_tell(message *m);

#endif
