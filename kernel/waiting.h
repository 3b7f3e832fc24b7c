/* While a cell runs: finds processes that wait for input, cells that have been stopped, and makes interrupts stronger
 * by and by. Read first: worker_process.h. */
#ifndef KERNEL_WAITING_H
#define KERNEL_WAITING_H

#include "worker_process.h"

/* Looks, now and then, for a process that waits in read(0) on the cell's stdin, and asks the user for a line. */
void waiting_look(worker_process *w);
/* Takes an interrupt one step further: SIGINT, then the worker's own signal, then the worker is ended. */
void waiting_interrupt(worker_process *w);

#endif
