/* MPI in a worker: see mpi.c. */
#ifndef KERNEL_WORKER_MPI_H
#define KERNEL_WORKER_MPI_H

#include <stdbool.h>

/* Starts MPI unless it runs: a world of this process alone. libmpi is loaded already. True when it has been started. */
bool mpi_start(void);

#endif
