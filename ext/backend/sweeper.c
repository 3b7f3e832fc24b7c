/* A thread with a queue: see sweeper.h. */
#include "backend/sweeper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/signals.h"

#define ROOM 256 /* the capacity of the queue; enqueuing to a full queue waits */

typedef struct piece_of_work {
    kolo_status (*work)(void *argument);
    kolo_sweeper *other; /* the piece waits until `other` has reached `position`; NULL: the piece calls work() */
    int64_t position;
    _Alignas(16) char argument[96];
} piece_of_work;

struct kolo_sweeper {
    pid_t process;
    pthread_t thread;
    bool started, closing;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    piece_of_work pieces[ROOM]; /* a ring */
    int64_t end, done; /* the number of pieces that were ever enqueued; that are finished */
    kolo_failure failure; /* the first since the last wait */
};

/* Does not take over a failure of the sweeper. */
static void wait_for(kolo_sweeper *sweeper, int64_t position)
{
    pthread_mutex_lock(&sweeper->lock);
    while (sweeper->done < position) pthread_cond_wait(&sweeper->changed, &sweeper->lock);
    pthread_mutex_unlock(&sweeper->lock);
}

/* The caller holds the lock. It is released while the work runs. */
static void do_next(kolo_sweeper *sweeper)
{
    piece_of_work next = sweeper->pieces[sweeper->done % ROOM];
    bool failed = sweeper->failure.code != KOLO_OK;
    kolo_failure failure = {0};
    pthread_mutex_unlock(&sweeper->lock);
    if (next.other) wait_for(next.other, next.position);
    else if (!failed) {
        kolo_status status = next.work(next.argument);
        failure = kolo_failure_take();
        failure.code = status;
    }
    pthread_mutex_lock(&sweeper->lock);
    if (failure.code != KOLO_OK) sweeper->failure = failure;
    sweeper->done++;
    pthread_cond_broadcast(&sweeper->changed);
}

static void *work_through(void *argument)
{
    kolo_sweeper *sweeper = argument;
    pthread_mutex_lock(&sweeper->lock);
    for (;;) {
        while (sweeper->done == sweeper->end && !sweeper->closing) pthread_cond_wait(&sweeper->changed, &sweeper->lock);
        if (sweeper->done == sweeper->end) break;
        do_next(sweeper);
    }
    pthread_mutex_unlock(&sweeper->lock);
    return NULL;
}

kolo_status kolo_sweeper_open(kolo_sweeper **sweeper)
{
    kolo_sweeper *made = calloc(1, sizeof *made);
    sigset_t before;
    if (!made) return kolo_fail_memory(sizeof *made, "a device's thread");
    made->process = getpid();
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    kolo_hold_signals(&before);
    made->started = pthread_create(&made->thread, NULL, work_through, made) == 0;
    kolo_release_signals(&before);
    *sweeper = made;
    if (made->started) return KOLO_OK;
    kolo_sweeper_close(sweeper);
    return kolo_fail(KOLO_MEMORY, "cannot start a device's thread: the system allows no more");
}

void kolo_sweeper_close(kolo_sweeper **sweeper)
{
    kolo_sweeper *closed = *sweeper;
    *sweeper = NULL;
    if (!closed) return;
    if (closed->process == getpid()) { /* otherwise its thread stayed with the parent */
        pthread_mutex_lock(&closed->lock);
        closed->closing = true;
        pthread_cond_broadcast(&closed->changed);
        pthread_mutex_unlock(&closed->lock);
        if (closed->started) pthread_join(closed->thread, NULL);
        pthread_mutex_destroy(&closed->lock);
        pthread_cond_destroy(&closed->changed);
    }
    free(closed);
}

static kolo_status check(const kolo_sweeper *sweeper)
{
    if (sweeper->process == getpid()) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED,
                     "the threads of this model stayed in the process that was forked; wanted a model "
                     "of the child's own");
}

static kolo_status put(kolo_sweeper *sweeper, const piece_of_work *added)
{
    KOLO_TRY(check(sweeper));
    pthread_mutex_lock(&sweeper->lock);
    while (sweeper->end - sweeper->done == ROOM) pthread_cond_wait(&sweeper->changed, &sweeper->lock);
    sweeper->pieces[sweeper->end++ % ROOM] = *added;
    pthread_cond_broadcast(&sweeper->changed);
    pthread_mutex_unlock(&sweeper->lock);
    return KOLO_OK;
}

kolo_status kolo_sweeper_enqueue(kolo_sweeper *sweeper, kolo_status (*work)(void *argument), const void *argument,
                                 size_t bytes)
{
    piece_of_work added = {.work = work};
    if (bytes > sizeof added.argument) return kolo_fail(KOLO_INTERNAL, "an argument of %zu bytes", bytes);
    memcpy(added.argument, argument, bytes);
    return put(sweeper, &added);
}

kolo_status kolo_sweeper_wait_for(kolo_sweeper *sweeper, kolo_sweeper *other, int64_t position)
{
    return put(sweeper, &(piece_of_work){.other = other, .position = position});
}

int64_t kolo_sweeper_end(kolo_sweeper *sweeper)
{
    if (sweeper->process != getpid()) return 0;
    pthread_mutex_lock(&sweeper->lock);
    int64_t end = sweeper->end;
    pthread_mutex_unlock(&sweeper->lock);
    return end;
}

kolo_status kolo_sweeper_wait(kolo_sweeper *sweeper, int64_t position)
{
    KOLO_TRY(check(sweeper));
    wait_for(sweeper, position);
    pthread_mutex_lock(&sweeper->lock);
    kolo_failure failure = sweeper->failure;
    sweeper->failure = (kolo_failure){0};
    pthread_mutex_unlock(&sweeper->lock);
    if (failure.code != KOLO_OK) kolo_failure_give(&failure);
    return failure.code;
}
