/* Clocks. */
#ifndef KOLO_LAUNCH_CLOCK_H
#define KOLO_LAUNCH_CLOCK_H

#include <time.h>

enum { CLOCK_NEVER = 0 }; /* a deadline that is not set */

/* Milliseconds of the monotonic clock, for deadlines. */
static inline long clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Microseconds of the wall clock, for comparing times of ranks, also on different hosts. */
static inline long clock_date(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* True when the deadline is set and has passed. */
static inline int clock_passed(long deadline)
{
    return deadline != CLOCK_NEVER && clock_now() >= deadline;
}

/* The milliseconds that poll() may wait until `deadline`, at most `longest`. */
static inline int clock_wait(long deadline, int longest)
{
    if (deadline == CLOCK_NEVER) return longest;
    long left = deadline - clock_now();
    return left < 0 ? 0 : left < longest ? (int)left : longest;
}

#endif
