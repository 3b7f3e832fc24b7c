/* Inside the shim: the kernel that runs, and what is checked of what it does in memory (checks.cpp). */
#ifndef KOLO_SHIM_BLOCKS_H
#define KOLO_SHIM_BLOCKS_H

#include "cuda_runtime.h"

struct kolo_shim_running {
    const void *kernel; /* NULL: none */
    uint32_t block, thread; /* their numbers in the grid and the block */
    char *stacks; /* of all threads */
    size_t stack_bytes;
    unsigned char *shared; /* the block's dynamic memory */
    size_t shared_bytes;
};
extern kolo_shim_running running;

/* Bytes of shared memory that a block may have, static and dynamic ones (runtime.cpp). */
size_t kolo_shim_shared_limit();
/* Whether a grid is none that CUDA refuses. */
bool kolo_shim_can_run(dim3 blocks, dim3 threads);
void kolo_shim_begin_launch(size_t blocks);
void kolo_shim_end_block();
/* The running thread goes on: the block has passed so many barriers, its warp so many __syncwarp(). */
void kolo_shim_turn(uint32_t barriers, uint32_t syncs);

/* Of each kernel that loaded squares for tensor cores from shared memory: how many since it was asked last, and how
 * often rows of one had to wait for others in the same banks. Tests find it by dlsym(). */
extern "C" void kolo_shim_tell_conflicts(void (*tell)(const char *kernel, long squares, long waits));

/* Says what is wrong, and where, and ends. */
[[noreturn]] void kolo_shim_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the running thread does with memory, where it is not seen by itself. */
void kolo_shim_reads(const void *memory, size_t bytes);
void kolo_shim_writes(void *memory, size_t bytes);

/* The device's memory: some more of it, of which nothing is known; it is gone; and what has just come to it, from other
 * memory of the device's, where it may have been unknown, from the host, or, NULL, from a library. */
void kolo_shim_watch(char *memory, size_t bytes);
void kolo_shim_unwatch(char *memory);
void kolo_shim_came(void *to, const void *from, size_t bytes);

#endif
