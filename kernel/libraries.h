/* The libraries that a cell's object needs beside libkolo. libmpi is loaded when the first cell needs it: it takes its
 * time, and most sessions do without. Read first: session.h, worker/protocol.h. */
#ifndef KERNEL_LIBRARIES_H
#define KERNEL_LIBRARIES_H

#include "session.h"

/* For MESSAGE_LOAD, of an object that needs these names. `ranks`: its cell runs on ranks, which have started MPI. */
const char *libraries_for(const names *wanted, bool ranks);

/* Says that MPI has been started for a cell that calls it without MPI_Init(). */
void tell_of_mpi(session *s, const names *wanted);

#endif
