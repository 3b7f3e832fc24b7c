#include "worker/clock.h"

#include <sys/resource.h>

double seconds_on(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct reading {
    int64_t wall, user, system; /* nanoseconds */
} reading;

static reading begun, took;

static int64_t nanoseconds(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_usec * 1000;
}

static reading read_clocks(void)
{
    struct rusage own = {0}, children = {0};
    struct timespec now;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (reading){(int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
                     nanoseconds(own.ru_utime) + nanoseconds(children.ru_utime),
                     nanoseconds(own.ru_stime) + nanoseconds(children.ru_stime)};
}

void clock_begin(void)
{
    begun = read_clocks();
}

void clock_end(void)
{
    reading now = read_clocks();
    took = (reading){now.wall - begun.wall, now.user - begun.user, now.system - begun.system};
}

void clock_tell(message *m)
{
    m->wall = took.wall;
    m->user = took.user;
    m->system = took.system;
}

/* Seconds since some fixed moment: %timeit's loops call it. */
double kolo_cell_clock(void);
double kolo_cell_clock(void)
{
    return seconds_on(CLOCK_MONOTONIC);
}
