/* The start of MPI, which returns when all ranks have called it: one that ends before, or never comes, would keep the
 * others waiting for ever. See mpi_comm.h. */
#define _GNU_SOURCE /* pthread_cond_clockwait */
#include "comm/mpi_comm.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/signals.h"

#define LEAST 10 /* seconds: the processes of a job do not start at the same moment */

/* A start, and the thread that looks at the time that it takes. */
typedef struct starting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool watched, done; /* the thread runs; MPI has started */
    double limit;       /* seconds */
    kolo_here here;     /* of the call of kolo_init() */
} starting;

static _Noreturn void give_up_start(const starting *start)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *path = start->here.file ? start->here.file : "kolo";
    const char *slash = strrchr(path, '/');
    fprintf(stderr,
            "rank %s: %s:%d: kolo_init: not all ranks have come for %g s (KOLO_STALL_LIMIT, at least 10): one has "
            "ended, or is still at work before its kolo_init()\n",
            rank ? rank : "?", slash ? slash + 1 : path, start->here.line, start->limit);
    fflush(stderr);
    _exit(1);
}

static void *watch_start(void *argument)
{
    starting *start = argument;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)ceil(start->limit);
    pthread_mutex_lock(&start->lock);
    int late = 0;
    while (!start->done && !late) late = pthread_cond_clockwait(&start->changed, &start->lock, CLOCK_MONOTONIC, &until);
    if (!start->done) give_up_start(start);
    pthread_mutex_unlock(&start->lock);
    return NULL;
}

static void begin_watch(starting *start)
{
    sigset_t before;
    double limit = kolo_stall_limit();
    *start = (starting){.limit = limit > 0 && limit < LEAST ? LEAST : limit, .here = kolo_scope_now().here};
    pthread_mutex_init(&start->lock, NULL);
    pthread_cond_init(&start->changed, NULL);
    kolo_hold_signals(&before);
    start->watched = start->limit > 0 && pthread_create(&start->thread, NULL, watch_start, start) == 0;
    kolo_release_signals(&before);
}

static void end_watch(starting *start)
{
    pthread_mutex_lock(&start->lock);
    start->done = true;
    pthread_cond_signal(&start->changed);
    pthread_mutex_unlock(&start->lock);
    if (start->watched) pthread_join(start->thread, NULL);
    pthread_cond_destroy(&start->changed);
    pthread_mutex_destroy(&start->lock);
}

int kolo_mpi_init(int *argc, char ***argv, int *provided)
{
    starting watch;
    begin_watch(&watch);
    int result = MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, provided);
    end_watch(&watch);
    return result;
}
