/* A comm with a modelled clock: see simulated.h. */
#include "comm/simulated.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "comm/front.h"
#include "link/link_model.h"

enum { KNOWN = 64 };

/* A training repeats few sizes, so their times are kept. */
typedef struct known_time {
    bool used;
    kolo_modelled_operation operation;
    double bytes, seconds;
} known_time;

typedef struct simulated {
    kolo_front front;
    pthread_mutex_t lock; /* of the clock, which may be read while a queue's thread is in a collective */
    kolo_simulate_links_args how;
    kolo_modelled_clock clock;
    known_time known[KNOWN];
    int next; /* the place of the next new time */
} simulated;

/* ---------------------------------------------------------------- the clock */

static kolo_status time_of(const simulated *s, kolo_modelled_operation operation, double bytes, double *seconds)
{
    kolo_task task = {s->how.model, bytes, s->front.comm.size, operation};
    bool chosen = operation == KOLO_MODELLED_ALLREDUCE;
    kolo_modelled_time time;
    KOLO_TRY(kolo_task_time(&task, chosen ? s->how.algorithm : KOLO_ALGORITHM_FASTEST, &time));
    *seconds = time.seconds;
    return KOLO_OK;
}

static kolo_status look_up(simulated *s, kolo_modelled_operation operation, double bytes, double *seconds)
{
    for (int i = 0; i < KNOWN; i++) {
        const known_time *known = &s->known[i];
        if (!known->used || known->operation != operation || known->bytes != bytes) continue;
        *seconds = known->seconds;
        return KOLO_OK;
    }
    KOLO_TRY(time_of(s, operation, bytes, seconds));
    s->known[s->next] = (known_time){true, operation, bytes, *seconds};
    s->next = (s->next + 1) % KNOWN;
    return KOLO_OK;
}

static void wait_for(double seconds)
{
    time_t whole = (time_t)seconds;
    nanosleep(&(struct timespec){.tv_sec = whole, .tv_nsec = (long)(1e9 * (seconds - (double)whole))}, NULL);
}

static kolo_status add(simulated *s, kolo_modelled_operation operation, double bytes)
{
    double seconds = 0;
    KOLO_TRY(look_up(s, operation, bytes, &seconds));
    pthread_mutex_lock(&s->lock);
    s->clock.seconds += seconds;
    s->clock.bytes += bytes;
    s->clock.collectives++;
    pthread_mutex_unlock(&s->lock);
    if (s->how.wait) wait_for(seconds);
    return KOLO_OK;
}

static void count_unmodelled(simulated *s)
{
    pthread_mutex_lock(&s->lock);
    s->clock.unmodelled++;
    pthread_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------- calls */

/* Behind a collective: adds its modelled time. A collective that failed takes none. */
static kolo_status leave(kolo_front *front, const kolo_front_call *call, kolo_status status)
{
    simulated *s = (simulated *)front;
    if (status != KOLO_OK || !s->how.model) return status;
    switch (call->kind) {
    case KOLO_FRONT_ALLREDUCE: return add(s, KOLO_MODELLED_ALLREDUCE, (double)call->bytes);
    /* Whatever the root is: the links of the model do not depend on it in a ring, and hardly in a tree. */
    case KOLO_FRONT_BROADCAST: return add(s, KOLO_MODELLED_BROADCAST, (double)call->bytes);
    case KOLO_FRONT_ALLGATHER: /* of unequal parts: as if they were equal */
    case KOLO_FRONT_ALLGATHERV: return add(s, KOLO_MODELLED_ALLGATHER, (double)call->gathered);
    /* As an all-reduce without bytes. */
    case KOLO_FRONT_BARRIER: return add(s, KOLO_MODELLED_ALLREDUCE, 0);
    /* After a meeting the caller moves bytes by other means. */
    case KOLO_FRONT_MEET:
    case KOLO_FRONT_ALLTOALLV: count_unmodelled(s); return KOLO_OK;
    default: return KOLO_OK;
    }
}

static const kolo_front_hooks hooks = {.leave = leave};

static kolo_status simulated_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    simulated *s = (simulated *)comm;
    kolo_comm *below = kolo_front_watched(comm);
    KOLO_TRY(below->kind->send(below, data, bytes, to, tag));
    if (s->how.model) count_unmodelled(s);
    return KOLO_OK;
}

static void simulated_close(kolo_comm *comm)
{
    pthread_mutex_destroy(&((simulated *)comm)->lock);
    free(comm);
}

kolo_status kolo_comm_simulated_open(kolo_comm *under, kolo_comm **comm)
{
    simulated *s = calloc(1, sizeof *s);
    if (!s) return kolo_fail_memory(sizeof *s, "a comm with a modelled clock");
    kolo_front_open(&s->front, under, &hooks);
    s->front.kind.send = simulated_send;
    s->front.kind.close = simulated_close;
    pthread_mutex_init(&s->lock, NULL);
    *comm = &s->front.comm;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- choosing a model */

kolo_status kolo_comm_simulate(kolo_comm *comm, const kolo_simulate_links_args *how)
{
    simulated *s = (simulated *)comm;
    int devices = comm->size;
    kolo_task task = {how->model, 0, devices, KOLO_MODELLED_ALLREDUCE};
    kolo_modelled_time time;
    if (how->model) {
        KOLO_TRY(kolo_link_check_devices(how->model, &devices));
        KOLO_TRY(kolo_task_time(&task, how->algorithm, &time));
    }
    pthread_mutex_lock(&s->lock);
    s->how = *how;
    s->clock = (kolo_modelled_clock){0};
    for (int i = 0; i < KNOWN; i++) s->known[i].used = false;
    pthread_mutex_unlock(&s->lock);
    return KOLO_OK;
}

kolo_modelled_clock kolo_comm_clock(kolo_comm *comm)
{
    simulated *s = (simulated *)comm;
    pthread_mutex_lock(&s->lock);
    kolo_modelled_clock clock = s->clock;
    pthread_mutex_unlock(&s->lock);
    return clock;
}
