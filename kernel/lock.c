/* The session's locks: see lock.h. */
#define _GNU_SOURCE
#include "lock.h"

#include <time.h>

void cell_begins(session *s)
{
    pthread_mutex_lock(&s->busy);
    pthread_mutex_lock(&s->knowledge);
    s->cell_thread = pthread_self();
    s->cell_runs = true;
}

void cell_ended(session *s)
{
    s->cell_runs = false;
    pthread_mutex_unlock(&s->knowledge);
    pthread_mutex_unlock(&s->busy);
}

/* Others than the thread of a cell (the one between cells, the debugger's) have nothing to let go of. */
static bool of_cell(const session *s)
{
    return s->cell_runs && pthread_equal(s->cell_thread, pthread_self());
}

void cell_waits(session *s)
{
    if (!of_cell(s)) return;
    s->cell_waiting = true;
    pthread_mutex_unlock(&s->knowledge);
}

void cell_goes_on(session *s)
{
    if (!of_cell(s)) return;
    pthread_mutex_lock(&s->knowledge);
    s->cell_waiting = false;
}

bool help_enters(session *s)
{
    bool alone = false;
    while (!(alone = pthread_mutex_trylock(&s->busy) == 0) && !s->cell_runs)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pthread_mutex_lock(&s->knowledge);
    return alone;
}

void help_leaves(session *s, bool alone)
{
    pthread_mutex_unlock(&s->knowledge);
    if (alone) pthread_mutex_unlock(&s->busy);
}

static bool lock_within(pthread_mutex_t *lock, time_t seconds)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += seconds;
    return pthread_mutex_timedlock(lock, &limit) == 0;
}

bool last_enters(session *s)
{
    return lock_within(&s->busy, 3) && lock_within(&s->knowledge, 3);
}
