/* Memory that the ranks of one host share: see mpi_comm.h. */
#include "comm/mpi_comm.h"

#include <sys/mman.h>
#include <unistd.h>

/* Rank 0 makes the memory. It is not in /dev/shm, which Docker makes small: there MPI_Win_allocate_shared hangs, or
 * returns memory that cannot be used. */
kolo_status kolo_mpi_share_memory(mpi_comm *me, MPI_Comm host, int rank, int size, mpi_memory *memory)
{
    *memory = (mpi_memory){.bytes = kolo_shared_bytes(size)};
    kolo_memory_file file = {0};
    int number = rank == 0 ? kolo_memory_file_make(memory->bytes, &file) : -1;
    KOLO_TRY(kolo_mpi_check(me, MPI_Bcast(&file, sizeof file, MPI_BYTE, 0, host), "MPI_Bcast"));
    if (rank != 0) number = kolo_memory_file_open(&file);
    void *mapped = number >= 0 ? mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0) : MAP_FAILED;
    int failed = mapped == MAP_FAILED;
    KOLO_TRY(kolo_mpi_check(me, MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, host), "MPI_Allreduce"));
    if (number >= 0) close(number);
    if (!failed) memory->address = mapped;
    else if (mapped != MAP_FAILED) munmap(mapped, memory->bytes);
    return KOLO_OK;
}

/* The memory is kept until the process ends, because kolo_init() may be called again. */
kolo_status kolo_mpi_share_for_good(mpi_comm *me, MPI_Comm host, int rank, int size, kolo_shared *shared)
{
    mpi_memory memory;
    if (shared->size > 0) return KOLO_OK;
    KOLO_TRY(kolo_mpi_share_memory(me, host, rank, size, &memory));
    return memory.address ? kolo_shared_open(shared, memory.address, rank, size) : KOLO_OK;
}

void kolo_mpi_unmap(mpi_memory *memory)
{
    if (memory->address) munmap(memory->address, memory->bytes);
    *memory = (mpi_memory){0};
}
