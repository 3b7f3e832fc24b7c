/* Threads that do the same work side by side: see team.h. */
#include "engine/team.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct member {
    kolo_team *team;
    int number;
    pthread_t thread;
} member;

struct kolo_team {
    int size;
    pid_t process; /* that the threads live in: a forked child has none of them */
    int started; /* threads that run, for closing after a failed start */
    pthread_mutex_t lock;
    pthread_cond_t work_is_there, work_is_done;
    unsigned long run; /* counts kolo_team_run; a member works when it changes */
    int working;
    bool closing;
    kolo_status (*work)(void *argument, int member);
    void *argument;
    kolo_failure failure;
    member members[];
};

static void keep_failure(kolo_team *team, kolo_status status)
{
    kolo_failure failure = kolo_failure_take();
    if (status == KOLO_OK) return;
    failure.code = status;
    bool better = team->failure.code == KOLO_OK || (team->failure.code == KOLO_COMM && status != KOLO_COMM);
    if (better) team->failure = failure;
}

static void *serve(void *argument)
{
    member *self = argument;
    kolo_team *team = self->team;
    unsigned long seen = 0;
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (!team->closing && team->run == seen) pthread_cond_wait(&team->work_is_there, &team->lock);
        if (team->closing) break;
        seen = team->run;
        pthread_mutex_unlock(&team->lock);
        kolo_status status = team->work(team->argument, self->number);
        pthread_mutex_lock(&team->lock);
        keep_failure(team, status);
        if (--team->working == 0) pthread_cond_signal(&team->work_is_done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Signals belong to the program's own threads. */
static int start_member(member *self)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&self->thread, NULL, serve, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

kolo_status kolo_team_open(int size, kolo_team **team)
{
    kolo_team *made = calloc(1, sizeof *made + (size_t)size * sizeof(member));
    if (!made) return kolo_fail_memory(sizeof *made, "a team of threads");
    made->size = size;
    made->process = getpid();
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
    pthread_mutex_lock(&team->lock);
    team->work = work;
    team->argument = argument;
    team->failure.code = KOLO_OK;
    team->working = team->size - 1;
    team->run++;
    pthread_cond_broadcast(&team->work_is_there);
    pthread_mutex_unlock(&team->lock);

    kolo_status status = work(argument, 0);

    pthread_mutex_lock(&team->lock);
    keep_failure(team, status);
    while (team->working > 0) pthread_cond_wait(&team->work_is_done, &team->lock);
    status = team->failure.code;
    if (status != KOLO_OK) kolo_failure_give(&team->failure);
    pthread_mutex_unlock(&team->lock);
    return status;
}

void kolo_team_close(kolo_team **team)
{
    kolo_team *closing = *team;
    *team = NULL;
    if (!closing) return;
    if (closing->process != getpid()) { /* nobody to wake or to wait for */
        free(closing);
        return;
    }
    pthread_mutex_lock(&closing->lock);
    closing->closing = true;
    pthread_cond_broadcast(&closing->work_is_there);
    pthread_mutex_unlock(&closing->lock);
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
