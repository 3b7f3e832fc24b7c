/* The memory, and how members meet in it: see shared.h. What they do with it is in shared_sums.c. The memory contains a
 * barrier, and for each member two records of its call and two slots for a chunk. It contains no pointers, because
 * processes may map it at different addresses.
 *
 * The two slots are used in turn, which saves a barrier: a member that writes chunk k + 2 into a slot has passed the
 * barrier of chunk k + 1, where all members arrive only after they have read chunk k. The records are used in the same
 * way. A member writes its record before the first barrier of a call, and compares all records behind it, so the
 * comparison needs no barrier of its own. */
#include "comm/shared_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/timeline.h"

/* Bytes. The chunks of all members together are small enough to stay in the caches. A chunk is large enough that a
 * barrier costs less time than copying. */
enum { ALL_CHUNKS = 1 << 21, LEAST_CHUNK = 1 << 18 };

#define IDLE_EVERY 50000000 /* nanoseconds between two calls of idle() */

struct kolo_shared_head {
    kolo_futex_barrier barrier;
    _Atomic int told; /* a member tells, or has told, that the group has stalled */
    _Atomic int broken; /* a call has ended in the middle: the members' turns are not the same any more */
};

enum { GROUP_NAME = 80 };
enum { HIDDEN, CHANGES, SHOWN }; /* kolo_shared_life.shows */

/* A member's signs of life, and where it waits. */
struct kolo_shared_life {
    _Alignas(KOLO_CACHE_LINE) _Atomic uint64_t count;
    /* Others look at `left` with each message that they send: not in a line that is written all the time. */
    _Alignas(KOLO_CACHE_LINE) _Atomic int left; /* it makes no more calls */
    _Atomic int shows; /* SHOWN: the call in which it waits is in the next two */
    kolo_collective call;
    char group[GROUP_NAME]; /* of which group; "": the whole one */
};

/* Bytes of a chunk: whole cache lines. */
size_t kolo_shared_chunk_bytes(int size)
{
    size_t share = ALL_CHUNKS / (size_t)size / KOLO_CACHE_LINE * KOLO_CACHE_LINE;
    return share > LEAST_CHUNK ? share : LEAST_CHUNK;
}

size_t kolo_shared_bytes(int size)
{
    return KOLO_CACHE_LINE + sizeof(struct kolo_shared_head) + (size_t)size * sizeof(struct kolo_shared_life) +
           2 * (size_t)size * (sizeof(struct kolo_shared_record) + kolo_shared_chunk_bytes(size));
}

/* Lays out the memory, and allocates the process's own lists. */
static kolo_status open_memory(kolo_shared *shared, void *memory, int rank, int size)
{
    size_t bytes = 3 * (size_t)size * sizeof(void *) + (size_t)size;
    void **slots = malloc(bytes);
    if (!slots) return kolo_fail_memory(bytes, "a group of ranks");
    kolo_mappings *mappings = NULL;
    if (kolo_mappings_open(size, &mappings) != KOLO_OK) {
        free(slots);
        return KOLO_MEMORY;
    }
    char *begin = (char *)(((uintptr_t)memory + KOLO_CACHE_LINE - 1) / KOLO_CACHE_LINE * KOLO_CACHE_LINE);
    struct kolo_shared_head *head = (struct kolo_shared_head *)begin;
    struct kolo_shared_life *lives = (struct kolo_shared_life *)(begin + sizeof *head);
    struct kolo_shared_record *records = (struct kolo_shared_record *)(lives + size);
    char *chunks = (char *)(records + 2 * (size_t)size);
    for (int i = 0; i < 2 * size; i++) slots[i] = chunks + (size_t)i * kolo_shared_chunk_bytes(size);
    *shared = (kolo_shared){.head = head,
                            .lives = lives,
                            .records = {records, records + size},
                            .slots = {slots, slots + size},
                            .sources = slots + 2 * (size_t)size,
                            .joined = (bool *)(slots + 3 * (size_t)size),
                            .mappings = mappings,
                            .rank = rank,
                            .size = size,
                            .stall_limit = kolo_stall_limit(),
                            .interruptible = kolo_in_notebook()};
    head->barrier.between_processes = 1; /* every member writes the same value before its first wait */
    return KOLO_OK;
}

kolo_status kolo_shared_open(kolo_shared *shared, void *memory, int rank, int size)
{
    KOLO_TRY(open_memory(shared, memory, rank, size));
    kolo_life_count_at(&shared->lives[rank].count);
    return KOLO_OK;
}

kolo_status kolo_shared_open_part(kolo_shared *shared, const kolo_shared *whole, const int *numbers, const char *name,
                                  void *memory, int rank, int size)
{
    KOLO_TRY(open_memory(shared, memory, rank, size));
    shared->whole = whole;
    shared->numbers = numbers;
    shared->group = name;
    return KOLO_OK;
}

void kolo_shared_close(kolo_shared *shared)
{
    if (shared->lives && !shared->whole) kolo_life_count_at(NULL);
    free(shared->slots[0]);
    kolo_mappings_close(&shared->mappings);
    *shared = (kolo_shared){0};
}

/* ---------------------------------------------------------------- what members know of each other */

static struct kolo_shared_life *own_life(const kolo_shared *shared)
{
    return shared->whole ? own_life(shared->whole) : &shared->lives[shared->rank];
}

static const struct kolo_shared_life *life_in(const kolo_shared *shared, int member)
{
    return shared->whole ? life_in(shared->whole, shared->numbers[member]) : &shared->lives[member];
}

void kolo_shared_return(kolo_shared *shared)
{
    atomic_store(&own_life(shared)->left, 0);
}

bool kolo_shared_has_left(const kolo_shared *shared, int member)
{
    return atomic_load(&shared->lives[member].left) != 0;
}

uint64_t kolo_shared_life_of_others(const kolo_shared *shared)
{
    uint64_t sum = 0;
    for (int i = 0; i < shared->size; i++)
        if (i != shared->rank) sum += atomic_load_explicit(&shared->lives[i].count, memory_order_relaxed);
    return sum;
}

bool kolo_shared_show_wait(const kolo_shared *shared, const kolo_collective *call)
{
    struct kolo_shared_life *own = own_life(shared);
    int hidden = HIDDEN;
    if (!atomic_compare_exchange_strong(&own->shows, &hidden, CHANGES)) return false;
    own->call = *call;
    if (call->root >= 0 && shared->numbers) own->call.root = shared->numbers[call->root];
    snprintf(own->group, sizeof own->group, "%s", shared->group ? shared->group : "");
    atomic_store(&own->shows, SHOWN);
    return true;
}

void kolo_shared_hide_wait(const kolo_shared *shared)
{
    atomic_store(&own_life(shared)->shows, HIDDEN);
}

const char *kolo_shared_wait_text(const kolo_shared *shared, int member)
{
    const struct kolo_shared_life *of = life_in(shared, member);
    if (atomic_load(&of->shows) != SHOWN) return "";
    kolo_collective call = of->call;
    char group[GROUP_NAME];
    memcpy(group, of->group, sizeof group);
    group[sizeof group - 1] = '\0';
    if (atomic_load(&of->shows) != SHOWN) return ""; /* it may have been another call's half */
    const kolo_calls names = {.who = "rank"};
    return kolo_phrase("; rank %d waits in %s%s%s", shared->numbers ? shared->numbers[member] : member,
                       kolo_call_text(&names, &call), group[0] ? " of " : "", group);
}

/* ---------------------------------------------------------------- meeting */

static kolo_calls calls_of(const kolo_shared *shared, unsigned turn)
{
    return (kolo_calls){.first = &shared->records[turn % 2][0].call,
                        .stride = sizeof(struct kolo_shared_record),
                        .size = shared->size,
                        .who = "rank",
                        .numbers = shared->numbers,
                        .group = shared->group};
}

/* A member's wait for the others. */
typedef struct waiting {
    const kolo_shared *shared;
    unsigned turn;
    kolo_stall stall;
    bool shown; /* the others can see in which call this member waits */
} waiting;

/* came[] may be NULL; *life becomes the number of signs of life of those that have not come. */
static int count_arrived(const waiting *wait, bool *came, uint64_t *life)
{
    int count = 0;
    *life = 0;
    for (int i = 0; i < wait->shared->size; i++) {
        bool here = atomic_load(&wait->shared->records[wait->turn % 2][i].turn) == wait->turn + 1;
        if (came) came[i] = here;
        if (!here) *life += atomic_load_explicit(&life_in(wait->shared, i)->count, memory_order_relaxed);
        count += here;
    }
    return count;
}

static bool has_stalled(void *argument)
{
    waiting *wait = argument;
    uint64_t life;
    if (wait->shared->idle) wait->shared->idle();
    if (!wait->shown) {
        const struct kolo_shared_record *own = &wait->shared->records[wait->turn % 2][wait->shared->rank];
        wait->shown = kolo_shared_show_wait(wait->shared, &own->call);
    }
    int came = count_arrived(wait, NULL, &life);
    if (atomic_load(&wait->shared->head->broken)) return true;
    return kolo_stall_passed(&wait->stall, came, life) && came < wait->shared->size;
}

/* Only a notebook's ranks make more calls then. */
static kolo_status fail_broken(kolo_shared *shared)
{
    shared->speaks = false;
    return kolo_fail(KOLO_COMM, "an earlier call of the ranks was ended in the middle, by a stall or an interrupt, so "
                                "that their calls do not match any more: start the ranks again");
}

static kolo_status say_who_is_missing(kolo_shared *shared, const waiting *wait)
{
    bool broken = atomic_exchange(&shared->head->broken, 1) != 0;
    if (broken && !atomic_load(&shared->head->told)) return fail_broken(shared);
    shared->speaks = atomic_exchange(&shared->head->told, 1) == 0;
    bool *came = shared->speaks ? calloc((size_t)shared->size, sizeof *came) : NULL;
    if (!came) return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    uint64_t life;
    count_arrived(wait, came, &life);
    kolo_calls calls = calls_of(shared, wait->turn);
    char elsewhere[400] = "";
    for (int i = 0; i < shared->size; i++) {
        size_t length = strlen(elsewhere);
        if (!came[i]) snprintf(elsewhere + length, sizeof elsewhere - length, "%s", kolo_shared_wait_text(shared, i));
    }
    calls.elsewhere = elsewhere;
    kolo_status status = kolo_calls_stalled(&calls, came, wait->stall.limit);
    free(came);
    return status;
}

static void put_record(kolo_shared *shared, unsigned turn, const kolo_collective *call)
{
    struct kolo_shared_record *record = &shared->records[turn % 2][shared->rank];
    record->call = *call;
    record->place = shared->place;
    atomic_store(&record->turn, turn + 1);
}

/* A thread that works beside one that computes sleeps at once. */
static kolo_barrier_watch make_watch(kolo_shared *shared)
{
    if (kolo_call_is_in_background()) return (kolo_barrier_watch){0};
    return (kolo_barrier_watch){.spins = shared->spins, .yielding = &shared->yielding};
}

/* The first member that waits for what it called: one that leaves the job has gone on, and would not tell. */
static int find_speaker(const kolo_calls *calls)
{
    int first = 0;
    while (first < calls->size - 1 && kolo_calls_at(calls, first)->operation == KOLO_CALL_FINISH) first++;
    return first;
}

/* The first barrier of a call, in its turn. Behind it the members' calls are known to be the same. */
kolo_status kolo_shared_gather(kolo_shared *shared, unsigned turn, const kolo_collective *call)
{
    waiting wait = {.shared = shared, .turn = turn, .stall.limit = shared->stall_limit};
    kolo_barrier_watch watch = make_watch(shared);
    if (shared->waits) atomic_store(&shared->head->broken, 1);
    if (atomic_load(&shared->head->broken)) return fail_broken(shared);
    watch.every = kolo_stall_turn(&wait.stall);
    bool rarely = watch.every.tv_sec > 0 || watch.every.tv_nsec == 0 || watch.every.tv_nsec > IDLE_EVERY;
    if ((shared->idle || shared->interruptible) && rarely) watch.every = (struct timespec){.tv_nsec = IDLE_EVERY};
    watch.look = has_stalled;
    watch.argument = &wait;
    if (shared->whole) kolo_show_life(); /* to ranks that wait for this one in the whole group */
    put_record(shared, turn, call);
    int64_t begun = kolo_timeline_begin();
    shared->waits = true;
    kolo_barrier_result result = kolo_barrier_watched_wait(&shared->head->barrier, shared->size, true, &watch);
    shared->waits = false;
    kolo_timeline_end(begun, KOLO_SPAN_WAIT, "ranks");
    kolo_status stalled = result == KOLO_BARRIER_LEFT ? say_who_is_missing(shared, &wait) : KOLO_OK;
    /* After a stall the job ends, and the members of other groups may look where this one waits. */
    if (wait.shown && (stalled == KOLO_OK || kolo_in_notebook())) kolo_shared_hide_wait(shared);
    KOLO_TRY(stalled);
    kolo_calls calls = calls_of(shared, turn);
    shared->speaks = shared->rank == find_speaker(&calls);
    shared->joined_count = kolo_calls_joined(&calls, shared->joined, &shared->made);
    return kolo_calls_compare(&calls);
}

/* The later barriers of a call. There is no abort: a rank that fails ends the whole job. */
void kolo_shared_wait_for_all(kolo_shared *shared)
{
    kolo_barrier_watch watch = make_watch(shared);
    kolo_barrier_watched_wait(&shared->head->barrier, shared->size, true, &watch);
}

kolo_status kolo_shared_meet(kolo_shared *shared, const kolo_collective *call)
{
    return kolo_shared_gather(shared, shared->turn++, call);
}

void kolo_shared_leave(kolo_shared *shared)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_FINISH, 0);
    put_record(shared, shared->turn++, &call);
    if (!shared->whole) atomic_store(&own_life(shared)->left, 1);
    kolo_barrier_arrive(&shared->head->barrier, shared->size);
}
