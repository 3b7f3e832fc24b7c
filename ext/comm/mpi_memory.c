/* Memory that the ranks of one host share: see mpi_comm.h. */
#define _GNU_SOURCE /* memfd_create */
#include "comm/mpi_comm.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Identifies rank 0's shared memory: a file without a name, which other processes open through rank 0's
 * /proc/PID/fd. */
typedef struct memory_file {
    pid_t process;
    int number; /* the file descriptor in that process */
    ino_t inode;
} memory_file;

static int make_memory(size_t bytes, memory_file *file)
{
    struct stat info;
    int number = memfd_create("kolo", MFD_CLOEXEC);
    if (number >= 0 && posix_fallocate(number, 0, (off_t)bytes) == 0 && fstat(number, &info) == 0) {
        *file = (memory_file){getpid(), number, info.st_ino};
        return number;
    }
    if (number >= 0) close(number);
    return -1;
}

/* Checks the inode, because in another container this PID may be another kolo_mpi_process. */
static int find_memory(const memory_file *file)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)file->process, file->number);
    int number = file->process > 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (number >= 0 && fstat(number, &info) == 0 && info.st_ino == file->inode) return number;
    if (number >= 0) close(number);
    return -1;
}

/* The memory is not in /dev/shm, which Docker makes small: there MPI_Win_allocate_shared hangs, or returns memory that
 * cannot be used. */
kolo_status kolo_mpi_share_memory(mpi_comm *me, MPI_Comm host, int rank, int size, mpi_memory *memory)
{
    *memory = (mpi_memory){.bytes = kolo_shared_bytes(size)};
    memory_file file = {0};
    int number = rank == 0 ? make_memory(memory->bytes, &file) : -1;
    KOLO_TRY(kolo_mpi_check(me, MPI_Bcast(&file, sizeof file, MPI_BYTE, 0, host), "MPI_Bcast"));
    if (rank != 0) number = find_memory(&file);
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
