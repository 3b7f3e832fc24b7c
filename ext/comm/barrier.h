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
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/cores.h"

#define KOLO_CACHE_LINE      64
#define KOLO_BARRIER_ABORTED 1u
#define KOLO_YIELDS          200 /* looks at the word between which a member yields */
#define KOLO_YIELD_LONG      1e-4 /* seconds after which another thread has computed on the yielded core */
#define KOLO_YIELD_REST      4096 /* waits */

/* Zeros are a new barrier. `word` and `arrived` are in different cache lines, so that an arriving member does not slow
 * down those that read the word. */
typedef struct kolo_futex_barrier {
    _Alignas(KOLO_CACHE_LINE) _Atomic uint32_t word;
    _Alignas(KOLO_CACHE_LINE) _Atomic uint32_t arrived;
    _Atomic uint32_t sleepers; /* members that may sleep; without any, opening the barrier needs no system call */
    _Atomic uint32_t between_processes; /* 1 in shared memory; futex() is faster with words of a single process */
} kolo_futex_barrier;

/* Whether a member yields its core before it sleeps. As long as the threads that share the cores only wait for one
 * another, yielding takes a microsecond and being woken takes ten. But a thread that computes keeps a yielded core for
 * milliseconds. A member to which that happens sleeps at once in its next waits: more of them each time, up to
 * KOLO_YIELD_REST. All zeros at the beginning; only one thread uses it. */
typedef struct kolo_yielding {
    int rest;   /* waits in which the member does not yield */
    int longer; /* the next rest */
} kolo_yielding;

/* Returns false if the member must sleep. */
static inline bool kolo_barrier_yield(kolo_yielding *yielding)
{
    if (!yielding || yielding->rest > 0) return false;
    double begin = kolo_now();
    sched_yield();
    if (kolo_now() - begin < KOLO_YIELD_LONG) return true;
    yielding->longer = 2 * yielding->longer + 16 < KOLO_YIELD_REST ? 2 * yielding->longer + 16 : KOLO_YIELD_REST;
    yielding->rest = yielding->longer;
    return true;
}

static inline void kolo_barrier_end_yields(kolo_yielding *yielding, bool slept)
{
    if (yielding && yielding->rest > 0) yielding->rest--;
    else if (yielding && !slept) yielding->longer = 0;
}

/* How a member waits. All zeros: it sleeps until the barrier opens. */
typedef struct kolo_barrier_watch {
    int spins; /* looks at the word before it yields or sleeps; for members that do not outnumber the cores */
    kolo_yielding *yielding; /* NULL: it never yields */
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
    KOLO_BARRIER_WAITS, /* not a result yet */
    KOLO_BARRIER_OPENED, /* all members have arrived */
    KOLO_BARRIER_OFF, /* the group was aborted before */
    KOLO_BARRIER_LEFT, /* look() returned true: this member has left, and the barrier will never open */
} kolo_barrier_result;

/* The result of a wait that began with the word `before`, and now reads `now`. */
static inline kolo_barrier_result kolo_barrier_result_of(uint32_t before, uint32_t now, bool ignore_abort)
{
    if (((now ^ before) & ~KOLO_BARRIER_ABORTED) != 0) return KOLO_BARRIER_OPENED;
    return !ignore_abort && (now & KOLO_BARRIER_ABORTED) ? KOLO_BARRIER_OFF : KOLO_BARRIER_WAITS;
}

/* Waits until all `size` members wait. The result is OPENED or OFF, the same one for every member, unless one leaves. A
 * wait with ignore_abort ignores an abort: it is for members that arrive in any case, because no code of a caller runs
 * before. */
static inline kolo_barrier_result kolo_barrier_watched_wait(kolo_futex_barrier *barrier, int size, bool ignore_abort,
                                                            const kolo_barrier_watch *watch)
{
    uint32_t before = atomic_load(&barrier->word), now = before;
    kolo_barrier_result result;
    bool slept = false;
    if (!ignore_abort && (before & KOLO_BARRIER_ABORTED)) return KOLO_BARRIER_OFF;
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == (uint32_t)size)
        return kolo_barrier_open(barrier, before, ignore_abort) ? KOLO_BARRIER_OPENED : KOLO_BARRIER_OFF;
    for (int turn = 0; (result = kolo_barrier_result_of(before, now, ignore_abort)) == KOLO_BARRIER_WAITS; turn++) {
        if (turn < watch->spins) kolo_pause_core();
        else if (turn >= watch->spins + KOLO_YIELDS || !kolo_barrier_yield(watch->yielding)) {
            if (slept && watch->look && watch->look(watch->argument)) return KOLO_BARRIER_LEFT;
            kolo_barrier_sleep(barrier, now, watch);
            slept = true;
        }
        now = atomic_load(&barrier->word);
    }
    kolo_barrier_end_yields(watch->yielding, slept);
    return result;
}

/* Arrives without waiting: for a member that will never use the barrier again. */
static inline void kolo_barrier_arrive(kolo_futex_barrier *barrier, int size)
{
    uint32_t word = atomic_load(&barrier->word);
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == (uint32_t)size) kolo_barrier_open(barrier, word, true);
}

#endif
