/* Threads that do the same work side by side: see team.h.
 *
 * A step of a small network has a few runs of some hundred microseconds each. Putting a thread to sleep and waking it
 * takes a good part of that time. A thread that waits therefore spins for a moment before it sleeps, if there is a core
 * for each thread. A thread that goes to sleep sets a flag before it checks the wait for the last time, and a thread
 * that ends a wait reads the flags afterwards. So at least one of the two sees the other's change. */
#include "backend/team.h"
#include "core/signals.h"
#include "core/timeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cores.h"
#include "comm/comm.h"
#include "core/clock.h"
#include "core/visit.h"

#define AWAKE_SECONDS 100e-6 /* about the cost of sleeping and waking on a machine that is not idle */
#define LOOKS         32     /* checks of the wait between two readings of the clock */

typedef struct member {
    kolo_team *team;
    int number;
    pthread_t thread;
} member;

struct kolo_team {
    int size;
    pid_t process; /* the process of the threads: a forked child has none of them */
    int started; /* the number of threads that were started: not all of them if one cannot be */
    bool looks;  /* there is a core for each thread, so they spin before they sleep */
    pthread_mutex_t lock;
    pthread_cond_t work_is_there, work_is_done;
    atomic_ulong run; /* counts calls of kolo_team_run(); a member works when it changes */
    atomic_int working;
    atomic_bool closing;
    atomic_int asleep;         /* the number of sleeping members, without member 0 */
    atomic_bool caller_asleep; /* member 0 sleeps */
    kolo_status (*work)(void *argument, int member); /* of the current run; set before `run` changes, as is argument */
    void *argument;
    kolo_scope scope; /* the public call that runs the team, which the members' messages name; set as `work` is */
    kolo_failure failure; /* under the lock */
    member members[];
};

static void keep_failure(kolo_team *team, kolo_status status)
{
    kolo_failure failure = kolo_failure_take();
    if (status == KOLO_OK) return;
    failure.code = status;
    pthread_mutex_lock(&team->lock);
    bool better = team->failure.code == KOLO_OK || (team->failure.code == KOLO_COMM && status != KOLO_COMM) ||
                  strcmp(team->failure.text, KOLO_COMM_CALLED_OFF) == 0;
    if (better) team->failure = failure;
    pthread_mutex_unlock(&team->lock);
}

/* ---------------------------------------------------------------- waiting */

static bool work_is_there(kolo_team *team, unsigned long seen)
{
    return atomic_load(&team->run) != seen || atomic_load(&team->closing);
}

static bool work_is_done(kolo_team *team, unsigned long seen)
{
    (void)seen;
    return atomic_load(&team->working) == 0;
}

/* Returns whether the wait is over. With team->looks it spins for up to AWAKE_SECONDS. */
static bool look(kolo_team *team, bool (*is_over)(kolo_team *team, unsigned long seen), unsigned long seen)
{
    if (is_over(team, seen)) return true;
    for (double until = team->looks ? kolo_now() + AWAKE_SECONDS : 0; until > 0 && kolo_now() < until;) {
        for (int i = 0; i < LOOKS; i++) {
            if (is_over(team, seen)) return true;
            kolo_pause_core();
        }
    }
    return false;
}

static void wait_for_work(kolo_team *team, unsigned long seen)
{
    if (look(team, work_is_there, seen)) return;
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add(&team->asleep, 1);
    while (!work_is_there(team, seen)) pthread_cond_wait(&team->work_is_there, &team->lock);
    atomic_fetch_sub(&team->asleep, 1);
    pthread_mutex_unlock(&team->lock);
}

static void wake_members(kolo_team *team)
{
    if (atomic_load(&team->asleep) == 0) return;
    pthread_mutex_lock(&team->lock);
    pthread_cond_broadcast(&team->work_is_there);
    pthread_mutex_unlock(&team->lock);
}

static void wait_for_members(kolo_team *team)
{
    if (look(team, work_is_done, 0)) return;
    pthread_mutex_lock(&team->lock);
    atomic_store(&team->caller_asleep, true);
    while (!work_is_done(team, 0)) pthread_cond_wait(&team->work_is_done, &team->lock);
    atomic_store(&team->caller_asleep, false);
    pthread_mutex_unlock(&team->lock);
}

static void wake_caller(kolo_team *team)
{
    if (!atomic_load(&team->caller_asleep)) return;
    pthread_mutex_lock(&team->lock);
    pthread_cond_signal(&team->work_is_done);
    pthread_mutex_unlock(&team->lock);
}

/* ---------------------------------------------------------------- members */

static void *serve(void *argument)
{
    member *self = argument;
    kolo_team *team = self->team;
    kolo_thread_helps();
    for (unsigned long seen = 0;; seen++) {
        wait_for_work(team, seen);
        if (atomic_load(&team->closing)) return NULL;
        kolo_scope_take_over(team->scope);
        keep_failure(team, team->work(team->argument, self->number));
        if (atomic_fetch_sub(&team->working, 1) == 1) wake_caller(team);
    }
}

static int start_member(member *self)
{
    sigset_t before;
    kolo_hold_signals(&before);
    int failed = pthread_create(&self->thread, NULL, serve, self);
    kolo_release_signals(&before);
    return failed;
}

kolo_status kolo_team_open(int size, kolo_team **team)
{
    kolo_team *made = calloc(1, sizeof *made + (size_t)size * sizeof(member));
    if (!made) return kolo_fail_memory(sizeof *made, "a team of threads");
    made->size = size;
    made->process = getpid();
    made->looks = size * kolo_local_size() <= kolo_cores_usable(); /* ranks share the cores */
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->work_is_there, NULL);
    pthread_cond_init(&made->work_is_done, NULL);
    for (int i = 1; i < size; i++) {
        made->members[i] = (member){.team = made, .number = i};
        if (start_member(&made->members[i]) != 0) {
            kolo_team_close(&made);
            return kolo_fail(KOLO_MEMORY, "cannot start thread %d of %d: the system allows no more", i + 1, size);
        }
        made->started++;
    }
    *team = made;
    return KOLO_OK;
}

kolo_status kolo_team_run(kolo_team *team, kolo_status (*work)(void *argument, int member), void *argument)
{
    if (team->size > 1 && team->process != getpid())
        return kolo_fail(KOLO_UNSUPPORTED, "the threads of this model stayed in the process that was forked; wanted a "
                                           "model of the child's own");
    team->work = work;
    team->argument = argument;
    team->scope = kolo_scope_now();
    team->failure.code = KOLO_OK;
    atomic_store(&team->working, team->size - 1);
    atomic_fetch_add(&team->run, 1);
    wake_members(team);
    keep_failure(team, work(argument, 0));
    int64_t begun = team->size > 1 ? kolo_timeline_begin() : 0;
    wait_for_members(team);
    kolo_timeline_end(begun, KOLO_SPAN_WAIT, "threads");
    if (team->failure.code != KOLO_OK) kolo_failure_give(&team->failure);
    return team->failure.code;
}

void kolo_team_close(kolo_team **team)
{
    kolo_team *closing = *team;
    *team = NULL;
    if (!closing) return;
    if (closing->process != getpid()) { /* a forked child has no threads to wake or to wait for */
        free(closing);
        return;
    }
    atomic_store(&closing->closing, true);
    wake_members(closing);
    for (int i = 1; i <= closing->started; i++) pthread_join(closing->members[i].thread, NULL);
    pthread_mutex_destroy(&closing->lock);
    pthread_cond_destroy(&closing->work_is_there);
    pthread_cond_destroy(&closing->work_is_done);
    free(closing);
}

int kolo_team_size(const kolo_team *team)
{
    return team->size;
}
