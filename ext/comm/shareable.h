/* Memory of this process that other processes of its host can map (mappings.h). Each block is a file without a name,
 * which another process opens through this one's /proc/PID/fd. The files are not in /dev/shm, which Docker makes small.
 *
 * A comm between ranks of one host reads and writes such memory in place, where any other memory is copied
 * (kolo_comm.reads_in_place). A child of fork() gets a copy of its own, as of other memory.
 */
#ifndef KOLO_COMM_SHAREABLE_H
#define KOLO_COMM_SHAREABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A file without a name, of an open process. Contains no pointers, because other processes read it. */
typedef struct kolo_memory_file {
    pid_t process;
    int number; /* the file descriptor in that process */
    ino_t inode;
} kolo_memory_file;

/* Makes a file of `bytes` zeros, which take memory when they are first touched, as other memory does. Returns its
 * descriptor, or -1. */
int kolo_memory_file_make(size_t bytes, kolo_memory_file *file);
/* Opens another process's file. Returns a descriptor that the caller closes, or -1: the process has ended, has closed
 * the file, or may not be looked into. */
int kolo_memory_file_open(const kolo_memory_file *file);

/* A place in a block of shareable memory, as other processes find it. */
typedef struct kolo_shareable_place {
    kolo_memory_file file;
    uint64_t serial; /* of the block; no other block of its process has, had or will have the same. 0: no place */
    uint64_t bytes;  /* of the whole block */
    uint64_t offset; /* of the place in the block */
} kolo_shareable_place;

/* Allocates `bytes` zeros, aligned to a page. Returns NULL if the system gives no such memory: the caller then takes
 * any other. Any thread may call these functions. */
void *kolo_shareable_allocate(size_t bytes);
/* Gives the memory back to the system, also where other processes have mapped it: there it reads as zeros. Returns
 * false, and does nothing, if `memory` is not from kolo_shareable_allocate(). */
bool kolo_shareable_deallocate(void *memory);
/* Where values[bytes] lie; serial is 0 if they are not within one block of shareable memory. */
kolo_shareable_place kolo_shareable_find(const void *values, size_t bytes);
/* The address of a place in a block of this process; NULL: it is another's. */
void *kolo_shareable_own(const kolo_shareable_place *place);

#endif
