/* A barrier for threads that outnumber the cores: whoever waits sleeps, and anybody can call the meeting off.
 *
 * All of it is one 32-bit word that a futex (futex(2)) can sleep on, and a count of arrivals. The word counts the
 * meetings that took place, in steps of two; its lowest bit says that the group was aborted. Because both live in one
 * word, one compare-and-swap decides whether a meeting took place or was called off, and everybody sees the same.
 */
#ifndef KOLO_COMM_BARRIER_H
#define KOLO_COMM_BARRIER_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KOLO_CACHE_LINE      64
#define KOLO_BARRIER_ABORTED 1u

/* Zeros are a barrier at its start. Two cache lines: arrivals would otherwise disturb those who look at the word. */
typedef struct kolo_futex_barrier {
    _Alignas(KOLO_CACHE_LINE) _Atomic uint32_t word;
    _Alignas(KOLO_CACHE_LINE) _Atomic uint32_t arrived;
    _Atomic uint32_t between_processes; /* 1 in shared memory; the kernel finds a process's own words faster */
} kolo_futex_barrier;

static inline int kolo_barrier_futex(kolo_futex_barrier *barrier, int operation, uint32_t value)
{
    int flag = atomic_load(&barrier->between_processes) ? 0 : FUTEX_PRIVATE_FLAG;
    return (int)syscall(SYS_futex, &barrier->word, operation | flag, value, NULL, NULL, 0);
}

static inline void kolo_barrier_sleep(kolo_futex_barrier *barrier, uint32_t seen)
{
    /* Returns at once if the word is no longer what we saw; signals and spurious wakes are the caller's loop's. */
    kolo_barrier_futex(barrier, FUTEX_WAIT, seen);
}

static inline void kolo_barrier_wake(kolo_futex_barrier *barrier)
{
    kolo_barrier_futex(barrier, FUTEX_WAKE, INT_MAX);
}

static inline bool kolo_barrier_aborted(const kolo_futex_barrier *barrier)
{
    return (atomic_load(&barrier->word) & KOLO_BARRIER_ABORTED) != 0;
}

static inline void kolo_barrier_abort(kolo_futex_barrier *barrier)
{
    atomic_fetch_or(&barrier->word, KOLO_BARRIER_ABORTED);
    kolo_barrier_wake(barrier);
}

/* The last to arrive opens the barrier, unless it was aborted before that. */
static inline bool kolo_barrier_open(kolo_futex_barrier *barrier, uint32_t word, bool stubborn)
{
    atomic_store(&barrier->arrived, 0); /* before the word: those who leave may come back at once */
    if (stubborn) atomic_fetch_add(&barrier->word, 2);
    else if (!atomic_compare_exchange_strong(&barrier->word, &word, word + 2)) return false;
    kolo_barrier_wake(barrier);
    return true;
}

/* Waits for all `size` members. True when all came; false, for every one of them, when the group was aborted first. A
 * stubborn wait ignores an abort: for members that are bound to come, since no caller's code runs before they do. */
static inline bool kolo_barrier_wait(kolo_futex_barrier *barrier, int size, bool stubborn)
{
    uint32_t word = atomic_load(&barrier->word);
    if (!stubborn && (word & KOLO_BARRIER_ABORTED)) return false;
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == (uint32_t)size) return kolo_barrier_open(barrier, word, stubborn);
    for (;;) {
        uint32_t now = atomic_load(&barrier->word);
        if (((now ^ word) & ~KOLO_BARRIER_ABORTED) != 0) return true;
        if (!stubborn && (now & KOLO_BARRIER_ABORTED)) return false;
        kolo_barrier_sleep(barrier, now);
    }
}

#endif
