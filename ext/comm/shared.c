/* See shared.h. The memory contains a barrier, and for each member two records of its call and two slots for a chunk.
 * It contains no pointers, because processes may map it at different addresses.
 *
 * The two slots are used in turn, which saves a barrier: a member that writes chunk k + 2 into a slot has passed the
 * barrier of chunk k + 1, where all members arrive only after they have read chunk k. The records are used in the same
 * way. A member writes its record before the first barrier of a call, and compares all records behind it, so the
 * comparison needs no barrier of its own. */
#include "comm/shared.h"

#include <stdlib.h>
#include <string.h>

#include "comm/sum.h"

/* Bytes. Small enough that the chunks of eight members stay in the caches; large enough that a barrier costs less time
 * than copying. */
enum { CHUNK = 1 << 18 };

#define IDLE_EVERY 50000000 /* nanoseconds between two calls of idle() */

struct kolo_shared_head {
    kolo_futex_barrier barrier;
    _Atomic int told; /* a member tells, or has told, that the group has stalled */
};

struct kolo_shared_record {
    _Alignas(KOLO_CACHE_LINE) kolo_collective call;
    _Atomic unsigned turn; /* the member's turn, plus 1, that the call belongs to; set after `call` */
};

/* A member's signs of life. */
struct kolo_shared_life {
    _Alignas(KOLO_CACHE_LINE) _Atomic uint64_t count;
};

size_t kolo_shared_bytes(int size)
{
    return KOLO_CACHE_LINE + sizeof(struct kolo_shared_head) + (size_t)size * sizeof(struct kolo_shared_life) +
           2 * (size_t)size * (sizeof(struct kolo_shared_record) + CHUNK);
}

kolo_status kolo_shared_open(kolo_shared *shared, void *memory, int rank, int size)
{
    size_t bytes = 2 * (size_t)size * sizeof(void *);
    void **slots = malloc(bytes);
    if (!slots) return kolo_fail_memory(bytes, "a group of ranks");
    char *begin = (char *)(((uintptr_t)memory + KOLO_CACHE_LINE - 1) / KOLO_CACHE_LINE * KOLO_CACHE_LINE);
    struct kolo_shared_head *head = (struct kolo_shared_head *)begin;
    struct kolo_shared_life *lives = (struct kolo_shared_life *)(begin + sizeof *head);
    struct kolo_shared_record *records = (struct kolo_shared_record *)(lives + size);
    char *chunks = (char *)(records + 2 * (size_t)size);
    for (int i = 0; i < 2 * size; i++) slots[i] = chunks + (size_t)i * CHUNK;
    *shared = (kolo_shared){.head = head,
                            .lives = lives,
                            .records = {records, records + size},
                            .slots = {slots, slots + size},
                            .rank = rank,
                            .size = size,
                            .stall_limit = kolo_stall_limit()};
    kolo_life_count_at(&lives[rank].count);
    head->barrier.between_processes = 1; /* every member writes the same value before its first wait */
    return KOLO_OK;
}

void kolo_shared_close(kolo_shared *shared)
{
    if (shared->lives) kolo_life_count_at(NULL);
    free(shared->slots[0]);
    *shared = (kolo_shared){0};
}

/* ---------------------------------------------------------------- meeting */

static kolo_calls calls_of(const kolo_shared *shared, unsigned turn)
{
    return (kolo_calls){&shared->records[turn % 2][0].call, sizeof(struct kolo_shared_record), shared->size, "rank"};
}

/* A member's wait for the others. */
typedef struct waiting {
    const kolo_shared *shared;
    unsigned turn;
    kolo_stall stall;
} waiting;

/* came[] may be NULL; *life becomes the number of signs of life of those that have not come. */
static int count_arrived(const waiting *wait, bool *came, uint64_t *life)
{
    int count = 0;
    *life = 0;
    for (int i = 0; i < wait->shared->size; i++) {
        bool here = atomic_load(&wait->shared->records[wait->turn % 2][i].turn) == wait->turn + 1;
        if (came) came[i] = here;
        if (!here) *life += atomic_load_explicit(&wait->shared->lives[i].count, memory_order_relaxed);
        count += here;
    }
    return count;
}

static bool has_stalled(void *argument)
{
    waiting *wait = argument;
    uint64_t life;
    if (wait->shared->idle) wait->shared->idle();
    int came = count_arrived(wait, NULL, &life);
    return kolo_stall_passed(&wait->stall, came, life) && came < wait->shared->size;
}

static kolo_status say_who_is_missing(kolo_shared *shared, const waiting *wait)
{
    shared->speaks = atomic_exchange(&shared->head->told, 1) == 0;
    bool *came = shared->speaks ? calloc((size_t)shared->size, sizeof *came) : NULL;
    if (!came) return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    uint64_t life;
    count_arrived(wait, came, &life);
    kolo_calls calls = calls_of(shared, wait->turn);
    kolo_status status = kolo_calls_stalled(&calls, came, wait->stall.limit);
    free(came);
    return status;
}

static void put_record(kolo_shared *shared, unsigned turn, const kolo_collective *call)
{
    struct kolo_shared_record *record = &shared->records[turn % 2][shared->rank];
    record->call = *call;
    atomic_store(&record->turn, turn + 1);
}

/* The looks at the barrier before this thread sleeps. */
static int spins_of(const kolo_shared *shared)
{
    return kolo_call_is_in_background() ? 0 : shared->spins;
}

/* The first barrier of a call, in its turn. Behind it the members' calls are known to be the same. */
static kolo_status gather_calls(kolo_shared *shared, unsigned turn, const kolo_collective *call)
{
    waiting wait = {.shared = shared, .turn = turn, .stall.limit = shared->stall_limit};
    struct timespec every = kolo_stall_turn(&wait.stall);
    bool often = shared->idle && (every.tv_sec > 0 || every.tv_nsec == 0 || every.tv_nsec > IDLE_EVERY);
    if (often) every = (struct timespec){.tv_nsec = IDLE_EVERY};
    kolo_barrier_watch watch = {.spins = spins_of(shared), .every = every, .look = has_stalled, .argument = &wait};
    put_record(shared, turn, call);
    if (kolo_barrier_watched_wait(&shared->head->barrier, shared->size, true, &watch) == KOLO_BARRIER_LEFT)
        return say_who_is_missing(shared, &wait);
    kolo_calls calls = calls_of(shared, turn);
    shared->speaks = shared->rank == 0;
    return kolo_calls_compare(&calls);
}

/* The later barriers of a call. There is no abort: a rank that fails ends the whole job. */
static void wait_for_all(kolo_shared *shared)
{
    kolo_barrier_watched_wait(&shared->head->barrier, shared->size, true,
                              &(kolo_barrier_watch){.spins = spins_of(shared)});
}

kolo_status kolo_shared_meet(kolo_shared *shared, const kolo_collective *call)
{
    return gather_calls(shared, shared->turn++, call);
}

void kolo_shared_leave(kolo_shared *shared)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_FINISH, 0);
    put_record(shared, shared->turn++, &call);
    kolo_barrier_arrive(&shared->head->barrier, shared->size);
}

/* ---------------------------------------------------------------- all-reduce and broadcast */

/* Each member copies its chunk to its slot, reduces one slice of all slots into slot 0, and copies the result. `call`
 * is NULL for all chunks but the first. */
static kolo_status allreduce_chunk(kolo_shared *shared, void *values, int64_t count, kolo_type type,
                                   kolo_reduce_op reduction, const kolo_collective *call)
{
    unsigned turn = shared->turn++;
    void **slots = shared->slots[turn % 2];
    size_t bytes = (size_t)count * kolo_type_bytes(type);
    int64_t begin = kolo_slice_begin(count, type, shared->rank, shared->size);
    int64_t end = kolo_slice_begin(count, type, shared->rank + 1, shared->size);
    kolo_copy_bytes(slots[shared->rank], values, bytes);
    if (call) KOLO_TRY(gather_calls(shared, turn, call));
    else wait_for_all(shared);
    if (count == 0) return KOLO_OK;
    kolo_reduce_slice(type, reduction, slots, shared->size, slots, 1, begin, end);
    wait_for_all(shared);
    memcpy(values, slots[0], bytes);
    return KOLO_OK;
}

kolo_status kolo_shared_allreduce(kolo_shared *shared, void *values, int64_t count, kolo_type type,
                                  kolo_reduce_op reduction)
{
    kolo_collective call = kolo_call_allreduce(count, type, reduction);
    int64_t most = CHUNK / (int64_t)kolo_type_bytes(type), at = 0;
    do {
        KOLO_TRY(allreduce_chunk(shared, (char *)values + (size_t)at * kolo_type_bytes(type),
                                 count - at < most ? count - at : most, type, reduction, at == 0 ? &call : NULL));
        at += most;
    } while (at < count);
    return KOLO_OK;
}

kolo_status kolo_shared_broadcast(kolo_shared *shared, void *data, size_t bytes, int root)
{
    kolo_collective call = kolo_call_broadcast(bytes, root);
    size_t at = 0;
    do {
        unsigned turn = shared->turn++;
        size_t chunk = bytes - at < CHUNK ? bytes - at : CHUNK;
        void *slot = shared->slots[turn % 2][root];
        if (shared->rank == root) kolo_copy_bytes(slot, (char *)data + at, chunk);
        if (at == 0) KOLO_TRY(gather_calls(shared, turn, &call));
        else wait_for_all(shared);
        if (shared->rank != root) kolo_copy_bytes((char *)data + at, slot, chunk);
        at += CHUNK;
    } while (at < bytes);
    return KOLO_OK;
}
