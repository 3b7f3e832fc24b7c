/* MPI's functions in a worker: see mpi.c. */
#ifndef KERNEL_WORKER_MPI_H
#define KERNEL_WORKER_MPI_H

/* Called at the first call of "PMPI_…" through its slot, which it fills: MPI runs from then on. The function's place.
 */
void *mpi_find(const char *name, void **slot);

#endif
