/* While a cell runs: is somebody waiting for input, has the cell been stopped, how does an interrupt escalate.
 * Read first: machine.h. */
#ifndef KERNEL_WAITING_H
#define KERNEL_WAITING_H

#include "machine.h"

/* Looks, now and then, for a process that waits in read(0) on the cell's stdin, and asks the user for a line. */
void waiting_look(machine *m);
/* Takes an interrupt one step further: asked, asked again, then the worker is ended. */
void waiting_interrupt(machine *m);

#endif
