/* Calls that sleep go on after the kernel has asked where the cell is (SIGNAL_WHERE). The C library ends them at any
 * handler, and a learner's sleep(60) would be over with the kernel's question. An interrupt still ends the cell. Read
 * first: worker.h. */
#define _GNU_SOURCE
#include "worker/clock.h"
#include "worker/interposed.h"
#include "worker/worker.h"

#include <errno.h>
#include <poll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

/* True when the call that has just ended with -1 was ended by the question. */
static bool was_asked(sig_atomic_t before)
{
    return errno == EINTR && running.asked != before;
}

INTERPOSED(clock_nanosleep);

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left)
{
    struct timespec rest = {0};
    const struct timespec *next = wanted;
    for (;;) {
        sig_atomic_t before = running.asked;
        int failed = real_clock_nanosleep()(clock, flags, next, &rest);
        bool goes_on = failed == EINTR && running.asked != before;
        if (failed == EINTR && !goes_on && left && !(flags & TIMER_ABSTIME)) *left = rest;
        if (!goes_on) return failed;
        if (!(flags & TIMER_ABSTIME)) next = &rest;
    }
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    int failed = clock_nanosleep(CLOCK_REALTIME, 0, wanted, left);
    if (failed) errno = failed;
    return failed ? -1 : 0;
}

unsigned sleep(unsigned seconds)
{
    struct timespec wanted = {.tv_sec = seconds}, left = {0};
    return nanosleep(&wanted, &left) ? (unsigned)left.tv_sec : 0;
}

int usleep(useconds_t microseconds)
{
    struct timespec wanted = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000L};
    return nanosleep(&wanted, NULL);
}

INTERPOSED(poll);

int poll(struct pollfd *watched, nfds_t count, int limit)
{
    double end = seconds_on(CLOCK_MONOTONIC) + limit / 1e3;
    for (int left = limit;;) {
        sig_atomic_t before = running.asked;
        int ready = real_poll()(watched, count, left);
        if (ready >= 0 || !was_asked(before)) return ready;
        double rest = (end - seconds_on(CLOCK_MONOTONIC)) * 1e3;
        if (limit >= 0) left = rest > 0 ? (int)rest : 0;
    }
}

INTERPOSED(select);

/* Linux subtracts the time that has passed from `limit`. A signal that ends the call leaves the sets as they were. */
int select(int count, fd_set *reads, fd_set *writes, fd_set *exceptions, struct timeval *limit)
{
    for (;;) {
        sig_atomic_t before = running.asked;
        int ready = real_select()(count, reads, writes, exceptions, limit);
        if (ready >= 0 || !was_asked(before)) return ready;
    }
}
