/* See shared.h. The memory contains a barrier, and two slots for each member, each for one chunk. It contains no
 * pointers, because processes may map it at different addresses.
 *
 * The two slots are used in turn, which saves a barrier: a member that writes chunk k + 2 into a slot has passed the
 * barrier of chunk k + 1, where all members arrive only after they have read chunk k. */
#include "comm/shared.h"

#include <stdlib.h>
#include <string.h>

#include "comm/sum.h"

/* Bytes. Small enough that the chunks of eight members stay in the caches; large enough that a barrier costs less time
 * than copying. */
enum { CHUNK = 1 << 18 };

size_t kolo_shared_bytes(int size)
{
    return KOLO_CACHE_LINE + sizeof(kolo_futex_barrier) + 2 * (size_t)size * CHUNK;
}

kolo_status kolo_shared_open(kolo_shared *shared, void *memory, int rank, int size)
{
    size_t bytes = 2 * (size_t)size * sizeof(void *);
    void **slots = malloc(bytes);
    if (!slots) return kolo_fail_memory(bytes, "a group of ranks");
    char *begin = (char *)(((uintptr_t)memory + KOLO_CACHE_LINE - 1) / KOLO_CACHE_LINE * KOLO_CACHE_LINE);
    for (int i = 0; i < 2 * size; i++) slots[i] = begin + sizeof(kolo_futex_barrier) + (size_t)i * CHUNK;
    *shared = (kolo_shared){
        .barrier = (kolo_futex_barrier *)begin, .slots = {slots, slots + size}, .rank = rank, .size = size};
    shared->barrier->between_processes = 1; /* every member writes the same value before its first wait */
    return KOLO_OK;
}

void kolo_shared_close(kolo_shared *shared)
{
    free(shared->slots[0]);
    *shared = (kolo_shared){0};
}

/* There is no abort: a rank that fails ends the whole job. */
void kolo_shared_barrier(kolo_shared *shared)
{
    kolo_barrier_wait(shared->barrier, shared->size, true);
}

/* Each member copies its chunk to its slot, sums one slice of all slots into slot 0, and copies the result. */
static void allreduce_chunk(kolo_shared *shared, void *values, int64_t count, kolo_type type)
{
    void **slots = shared->slots[shared->turn++ % 2];
    size_t bytes = (size_t)count * kolo_type_bytes(type);
    int64_t begin = kolo_slice_begin(count, type, shared->rank, shared->size);
    int64_t end = kolo_slice_begin(count, type, shared->rank + 1, shared->size);
    memcpy(slots[shared->rank], values, bytes);
    kolo_shared_barrier(shared);
    kolo_sum_slice(type, slots, shared->size, slots, 1, begin, end);
    kolo_shared_barrier(shared);
    memcpy(values, slots[0], bytes);
}

void kolo_shared_allreduce(kolo_shared *shared, void *values, int64_t count, kolo_type type)
{
    int64_t most = CHUNK / (int64_t)kolo_type_bytes(type);
    for (int64_t at = 0; at < count; at += most)
        allreduce_chunk(shared, (char *)values + (size_t)at * kolo_type_bytes(type),
                        count - at < most ? count - at : most, type);
}

void kolo_shared_broadcast(kolo_shared *shared, void *data, size_t bytes, int root)
{
    for (size_t at = 0; at < bytes; at += CHUNK) {
        void *slot = shared->slots[shared->turn++ % 2][root];
        size_t chunk = bytes - at < CHUNK ? bytes - at : CHUNK;
        if (shared->rank == root) memcpy(slot, (char *)data + at, chunk);
        kolo_shared_barrier(shared);
        if (shared->rank != root) memcpy((char *)data + at, slot, chunk);
    }
}
