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

/* Lays out the memory, and allocates the process's own lists. */
static kolo_status open_memory(kolo_shared *shared, void *memory, int rank, int size)
{
    size_t bytes = 3 * (size_t)size * sizeof(void *) + (size_t)size;
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
                            .present = slots + 2 * (size_t)size,
                            .joined = (bool *)(slots + 3 * (size_t)size),
                            .rank = rank,
                            .size = size,
                            .stall_limit = kolo_stall_limit()};
    head->barrier.between_processes = 1; /* every member writes the same value before its first wait */
    return KOLO_OK;
}

kolo_status kolo_shared_open(kolo_shared *shared, void *memory, int rank, int size)
{
    KOLO_TRY(open_memory(shared, memory, rank, size));
    kolo_life_count_at(&shared->lives[rank].count);
    return KOLO_OK;
}

kolo_status kolo_shared_open_part(kolo_shared *shared, const kolo_shared *whole, const int *numbers, void *memory,
                                  int rank, int size)
{
    KOLO_TRY(open_memory(shared, memory, rank, size));
    shared->whole = whole;
    shared->numbers = numbers;
    return KOLO_OK;
}

void kolo_shared_close(kolo_shared *shared)
{
    if (shared->lives && !shared->whole) kolo_life_count_at(NULL);
    free(shared->slots[0]);
    *shared = (kolo_shared){0};
}

/* ---------------------------------------------------------------- meeting */

static kolo_calls calls_of(const kolo_shared *shared, unsigned turn)
{
    return (kolo_calls){&shared->records[turn % 2][0].call, sizeof(struct kolo_shared_record), shared->size, "rank",
                        shared->numbers};
}

/* A member's wait for the others. */
typedef struct waiting {
    const kolo_shared *shared;
    unsigned turn;
    kolo_stall stall;
} waiting;

static uint64_t life_of(const kolo_shared *shared, int member)
{
    if (shared->whole) return life_of(shared->whole, shared->numbers[member]);
    return atomic_load_explicit(&shared->lives[member].count, memory_order_relaxed);
}

/* came[] may be NULL; *life becomes the number of signs of life of those that have not come. */
static int count_arrived(const waiting *wait, bool *came, uint64_t *life)
{
    int count = 0;
    *life = 0;
    for (int i = 0; i < wait->shared->size; i++) {
        bool here = atomic_load(&wait->shared->records[wait->turn % 2][i].turn) == wait->turn + 1;
        if (came) came[i] = here;
        if (!here) *life += life_of(wait->shared, i);
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
    if (shared->whole) kolo_show_life(); /* to ranks that wait for this one in the whole group */
    put_record(shared, turn, call);
    if (kolo_barrier_watched_wait(&shared->head->barrier, shared->size, true, &watch) == KOLO_BARRIER_LEFT)
        return say_who_is_missing(shared, &wait);
    kolo_calls calls = calls_of(shared, turn);
    shared->speaks = shared->rank == 0;
    shared->joined_count = kolo_calls_joined(&calls, shared->joined, &shared->made);
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

/* The places of the chunks that are reduced. Those of members that have joined hold nothing. */
static int present_slots(kolo_shared *shared, void **slots, void ***present)
{
    int count = 0;
    *present = slots;
    if (shared->joined_count == 0) return shared->size;
    for (int i = 0; i < shared->size; i++)
        if (!shared->joined[i]) shared->present[count++] = slots[i];
    *present = shared->present;
    return count;
}

/* Each member reduces one slice of all slots into slot 0. */
static void reduce_slots(kolo_shared *shared, void **slots, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    void **present;
    int sources = present_slots(shared, slots, &present);
    int64_t begin = kolo_slice_begin(count, type, shared->rank, shared->size);
    int64_t end = kolo_slice_begin(count, type, shared->rank + 1, shared->size);
    kolo_reduce_slice(type, reduction, present, sources, slots, 1, begin, end);
    wait_for_all(shared);
}

/* Each member copies its chunk to its slot, takes part in the reduction, and copies the result. `call` is NULL for all
 * chunks but the first. */
static kolo_status allreduce_chunk(kolo_shared *shared, void *values, int64_t count, kolo_type type,
                                   kolo_reduce_op reduction, const kolo_collective *call)
{
    unsigned turn = shared->turn++;
    void **slots = shared->slots[turn % 2];
    size_t bytes = (size_t)count * kolo_type_bytes(type);
    kolo_copy_bytes(slots[shared->rank], values, bytes);
    if (call) KOLO_TRY(gather_calls(shared, turn, call));
    else wait_for_all(shared);
    if (count == 0) return KOLO_OK;
    reduce_slots(shared, slots, count, type, reduction);
    memcpy(values, slots[0], bytes);
    return KOLO_OK;
}

void kolo_shared_answer_allreduce(kolo_shared *shared)
{
    kolo_type type = (kolo_type)shared->made.type;
    int64_t count = shared->made.count, most = CHUNK / (int64_t)kolo_type_bytes(type);
    for (int64_t at = 0; at < count; at += most) {
        unsigned turn = at == 0 ? shared->turn - 1 : shared->turn++; /* the meeting was the turn of the first chunk */
        if (at > 0) wait_for_all(shared);
        reduce_slots(shared, shared->slots[turn % 2], count - at < most ? count - at : most, type,
                     (kolo_reduce_op)shared->made.reduction);
    }
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
