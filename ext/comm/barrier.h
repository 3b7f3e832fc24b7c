/* A barrier for threads that outnumber the cores: waiting threads sleep, and any thread can abort the group.
 *
 * The barrier is one 32-bit word, on which threads sleep with futex(2), and a count of the members that have arrived.
 * The word counts the completed waits, in steps of two; its lowest bit is set when the group was aborted. Because both
 * are in one word, one compare-and-swap decides whether a wait was completed or aborted, and all members see the same
 * result.
 */
#ifndef KOLO_COMM_BARRIER_H
#define KOLO_COMM_BARRIER_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/cores.h"

#define KOLO_CACHE_LINE      64
#define KOLO_BARRIER_ABORTED 1u

/* Zeros are a new barrier. `word` and `arrived` are in different cache lines, so that an arriving member does not slow
 * down those that read the word. */
typedef struct kolo_futex_barrier {
    _Alignas(KOLO_CACHE_LINE) _Atomic uint32_t word;
    _Alignas(KOLO_CACHE_LINE) _Atomic uint32_t arrived;
    _Atomic uint32_t sleepers; /* members that may sleep; without any, opening the barrier needs no system call */
    _Atomic uint32_t between_processes; /* 1 in shared memory; futex() is faster with words of a single process */
} kolo_futex_barrier;

/* How a member waits. All zeros: it sleeps until the barrier opens. */
typedef struct kolo_barrier_watch {
    int spins; /* looks at the word before it sleeps; for members that do not outnumber the cores */
    struct timespec every; /* how long it sleeps between two calls of look(); 0: until the barrier opens */
    bool (*look)(void *argument); /* returns true if the member must not wait any longer */
    void *argument;
} kolo_barrier_watch;

static inline int kolo_barrier_futex(kolo_futex_barrier *barrier, int operation, uint32_t value,
                                     const struct timespec *most)
{
    int flag = atomic_load(&barrier->between_processes) ? 0 : FUTEX_PRIVATE_FLAG;
    return (int)syscall(SYS_futex, &barrier->word, operation | flag, value, most, NULL, 0);
}

/* Returns at once if the word is not `seen` any more. The caller's loop handles signals and spurious wakes. */
static inline void kolo_barrier_sleep(kolo_futex_barrier *barrier, uint32_t seen, const kolo_barrier_watch *watch)
{
    atomic_fetch_add(&barrier->sleepers, 1); /* before futex() looks at the word, which an opening member sets first */
    bool timed = watch->every.tv_sec > 0 || watch->every.tv_nsec > 0;
    kolo_barrier_futex(barrier, FUTEX_WAIT, seen, timed ? &watch->every : NULL);
    atomic_fetch_sub(&barrier->sleepers, 1);
}

static inline void kolo_barrier_wake(kolo_futex_barrier *barrier)
{
    kolo_barrier_futex(barrier, FUTEX_WAKE, INT_MAX, NULL);
}

static inline bool kolo_barrier_aborted(const kolo_futex_barrier *barrier)
{
    return (atomic_load(&barrier->word) & KOLO_BARRIER_ABORTED) != 0;
}

/* Returns whether the group was aborted before. */
static inline bool kolo_barrier_abort(kolo_futex_barrier *barrier)
{
    uint32_t before = atomic_fetch_or(&barrier->word, KOLO_BARRIER_ABORTED);
    kolo_barrier_wake(barrier);
    return (before & KOLO_BARRIER_ABORTED) != 0;
}

/* Called by the last member: opens the barrier, unless the group was aborted before. Returns whether it was opened. */
static inline bool kolo_barrier_open(kolo_futex_barrier *barrier, uint32_t word, bool ignore_abort)
{
    atomic_store(&barrier->arrived, 0); /* before the word, because members that leave may wait again at once */
    if (ignore_abort) atomic_fetch_add(&barrier->word, 2);
    else if (!atomic_compare_exchange_strong(&barrier->word, &word, word + 2)) return false;
    if (atomic_load(&barrier->sleepers) > 0) kolo_barrier_wake(barrier);
    return true;
}

typedef enum kolo_barrier_result {
    KOLO_BARRIER_OPENED, /* all members have arrived */
    KOLO_BARRIER_OFF, /* the group was aborted before */
    KOLO_BARRIER_LEFT, /* look() returned true: this member has left, and the barrier will never open */
} kolo_barrier_result;

/* Waits until all `size` members wait. The result is OPENED or OFF, the same one for every member, unless one leaves. A
 * wait with ignore_abort ignores an abort: it is for members that arrive in any case, because no code of a caller runs
 * before. */
static inline kolo_barrier_result kolo_barrier_watched_wait(kolo_futex_barrier *barrier, int size, bool ignore_abort,
                                                            const kolo_barrier_watch *watch)
{
    uint32_t word = atomic_load(&barrier->word);
    if (!ignore_abort && (word & KOLO_BARRIER_ABORTED)) return KOLO_BARRIER_OFF;
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == (uint32_t)size)
        return kolo_barrier_open(barrier, word, ignore_abort) ? KOLO_BARRIER_OPENED : KOLO_BARRIER_OFF;
    for (int turn = 0;; turn++) {
        uint32_t now = atomic_load(&barrier->word);
        if (((now ^ word) & ~KOLO_BARRIER_ABORTED) != 0) return KOLO_BARRIER_OPENED;
        if (!ignore_abort && (now & KOLO_BARRIER_ABORTED)) return KOLO_BARRIER_OFF;
        if (turn < watch->spins) {
            kolo_pause_core();
            continue;
        }
        if (turn > watch->spins && watch->look && watch->look(watch->argument)) return KOLO_BARRIER_LEFT;
        kolo_barrier_sleep(barrier, now, watch);
    }
}

/* The same without a watch: whether the barrier has opened. */
static inline bool kolo_barrier_wait(kolo_futex_barrier *barrier, int size, bool ignore_abort)
{
    return kolo_barrier_watched_wait(barrier, size, ignore_abort, &(kolo_barrier_watch){0}) == KOLO_BARRIER_OPENED;
}

/* Arrives without waiting: for a member that will never use the barrier again. */
static inline void kolo_barrier_arrive(kolo_futex_barrier *barrier, int size)
{
    uint32_t word = atomic_load(&barrier->word);
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == (uint32_t)size) kolo_barrier_open(barrier, word, true);
}

#endif
