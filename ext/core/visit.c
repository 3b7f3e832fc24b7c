/* Which thread is using a model: see visit.h. */
#include "core/visit.h"

#include <unistd.h>

/* One lock for all models: it is held for a few instructions only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t somebody_left = PTHREAD_COND_INITIALIZER;
static _Thread_local bool helper;

/* ---- fork: in the child the lock is free, and no thread waits */

static void hold(void)
{
    pthread_mutex_lock(&lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&lock);
}

static void start_anew(void)
{
    somebody_left = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pthread_mutex_unlock(&lock);
}

static void prepare_for_fork(void)
{
    pthread_atfork(hold, let_go, start_anew);
}

/* ---- visits */

static bool is_ours(const kolo_visit *visit)
{
    return visit->depth > 0 && visit->process == getpid() && pthread_equal(visit->thread, pthread_self());
}

static bool is_anothers(const kolo_visit *visit)
{
    return visit->depth > 0 && visit->process == getpid() && !pthread_equal(visit->thread, pthread_self());
}

static kolo_status refuse(const kolo_visit *visit, const char *call)
{
    return kolo_fail(KOLO_INVALID, "this model is in %s() of another thread: wanted %s() after it", visit->call, call);
}

/* Called with the lock held. */
static kolo_status wait_for_others(kolo_visit *visit, const char *call, bool changes)
{
    while (is_anothers(visit)) {
        if (changes || visit->changes || helper) return refuse(visit, call);
        pthread_cond_wait(&somebody_left, &lock);
    }
    return KOLO_OK;
}

kolo_status kolo_visit_begin(kolo_visit *visit, const char *call, bool changes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_for_fork);
    pthread_mutex_lock(&lock);
    kolo_status status = wait_for_others(visit, call, changes);
    if (status == KOLO_OK && is_ours(visit)) visit->depth++;
    else if (status == KOLO_OK) *visit = (kolo_visit){call, changes, pthread_self(), getpid(), 1};
    pthread_mutex_unlock(&lock);
    return status;
}

/* Does nothing in a forked child that returns from a call that its parent began. */
void kolo_visit_end(kolo_visit *visit)
{
    pthread_mutex_lock(&lock);
    if (is_ours(visit) && --visit->depth == 0) pthread_cond_broadcast(&somebody_left);
    pthread_mutex_unlock(&lock);
}

bool kolo_visit_is_taken(kolo_visit *visit)
{
    pthread_mutex_lock(&lock);
    bool taken = is_anothers(visit);
    pthread_mutex_unlock(&lock);
    return taken;
}

void kolo_thread_helps(void)
{
    helper = true;
}
