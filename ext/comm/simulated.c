/* A comm with a modelled clock: see simulated.h. */
#include "comm/simulated.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "link/link_model.h"

enum { KNOWN = 64 };

/* A training repeats few sizes, so their times are kept. */
typedef struct known_time {
    bool used;
    kolo_modelled_operation operation;
    double bytes, seconds;
} known_time;

typedef struct simulated {
    kolo_comm comm;
    kolo_comm_kind kind; /* without the calls that `below` does not have */
    kolo_comm *below;
    pthread_mutex_t lock; /* of the clock, which may be read while a queue's thread is in a collective */
    kolo_simulate_links_args how;
    kolo_modelled_clock clock;
    known_time known[KNOWN];
    int next; /* the place of the next new time */
} simulated;

static kolo_comm *below(kolo_comm *comm)
{
    return ((simulated *)comm)->below;
}

/* ---------------------------------------------------------------- the clock */

static kolo_status time_of(const simulated *s, kolo_modelled_operation operation, double bytes, double *seconds)
{
    kolo_task task = {s->how.model, bytes, s->comm.size, operation};
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

/* Behind a collective: adds its modelled time. A collective that failed takes none. */
static kolo_status add(kolo_comm *comm, kolo_status status, kolo_modelled_operation operation, double bytes)
{
    simulated *s = (simulated *)comm;
    double seconds = 0;
    if (status != KOLO_OK || !s->how.model) return status;
    KOLO_TRY(look_up(s, operation, bytes, &seconds));
    pthread_mutex_lock(&s->lock);
    s->clock.seconds += seconds;
    s->clock.bytes += bytes;
    s->clock.collectives++;
    pthread_mutex_unlock(&s->lock);
    if (s->how.wait) wait_for(seconds);
    return KOLO_OK;
}

static kolo_status count_unmodelled(kolo_comm *comm, kolo_status status)
{
    simulated *s = (simulated *)comm;
    if (status != KOLO_OK || !s->how.model) return status;
    pthread_mutex_lock(&s->lock);
    s->clock.unmodelled++;
    pthread_mutex_unlock(&s->lock);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- collectives */

static kolo_status simulated_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                       kolo_reduce_op reduction)
{
    double bytes = (double)count * (double)kolo_type_bytes(type);
    kolo_status status = below(comm)->kind->allreduce(below(comm), values, count, type, reduction);
    return add(comm, status, KOLO_MODELLED_ALLREDUCE, bytes);
}

/* Whatever the root is: the links of the model do not depend on it in a ring, and hardly in a tree. */
static kolo_status simulated_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    kolo_status status = below(comm)->kind->broadcast(below(comm), data, bytes, root);
    return add(comm, status, KOLO_MODELLED_BROADCAST, (double)bytes);
}

static kolo_status simulated_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    kolo_status status = below(comm)->kind->allgather(below(comm), data, bytes, all);
    return add(comm, status, KOLO_MODELLED_ALLGATHER, (double)bytes * comm->size);
}

/* As if all members had equal parts. */
static kolo_status simulated_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                        const size_t *offsets)
{
    double sum = 0;
    for (int i = 0; i < comm->size; i++) sum += (double)bytes[i];
    kolo_status status = below(comm)->kind->allgatherv(below(comm), data, all, bytes, offsets);
    return add(comm, status, KOLO_MODELLED_ALLGATHER, sum);
}

/* As an all-reduce without bytes. */
static kolo_status simulated_barrier(kolo_comm *comm)
{
    return add(comm, below(comm)->kind->barrier(below(comm)), KOLO_MODELLED_ALLREDUCE, 0);
}

static kolo_status simulated_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                       const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                       const size_t *receive_offsets)
{
    return count_unmodelled(comm, below(comm)->kind->alltoallv(below(comm), send, send_bytes, send_offsets, receive,
                                                               receive_bytes, receive_offsets));
}

/* The caller moves bytes by other means. */
static kolo_status simulated_meet(kolo_comm *comm, const kolo_collective *call)
{
    return count_unmodelled(comm, below(comm)->kind->meet(below(comm), call));
}

/* ---------------------------------------------------------------- the rest is that of the comm below */

static kolo_status simulated_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    below(comm)->watch = comm->watch;
    return count_unmodelled(comm, below(comm)->kind->send(below(comm), data, bytes, to, tag));
}

static kolo_status simulated_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    below(comm)->watch = comm->watch;
    return below(comm)->kind->receive(below(comm), data, room, from, tag, message);
}

static kolo_status simulated_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    return below(comm)->kind->probe(below(comm), from, tag, there, message);
}

static kolo_status simulated_split(kolo_comm *comm, int color, kolo_comm **part)
{
    return below(comm)->kind->split(below(comm), color, part);
}

static kolo_status simulated_join(kolo_comm *comm, int *last)
{
    return below(comm)->kind->join(below(comm), last);
}

static kolo_status simulated_wait_for_threads(kolo_comm *comm)
{
    return below(comm)->kind->wait_for_threads(below(comm));
}

static void simulated_give_up(kolo_comm *comm, int call, const char *why)
{
    below(comm)->kind->give_up(below(comm), call, why);
}

static void simulated_abort(kolo_comm *comm)
{
    below(comm)->kind->abort(below(comm));
}

static void simulated_abort_threads(kolo_comm *comm)
{
    below(comm)->kind->abort_threads(below(comm));
}

static bool simulated_aborted(const kolo_comm *comm)
{
    const kolo_comm *under = ((const simulated *)comm)->below;
    return under->kind->aborted(under);
}

static void simulated_lose(kolo_comm *comm)
{
    below(comm)->kind->lose(below(comm));
}

static void simulated_close(kolo_comm *comm)
{
    pthread_mutex_destroy(&((simulated *)comm)->lock);
    free(comm);
}

kolo_status kolo_comm_simulated_open(kolo_comm *under, kolo_comm **comm)
{
    const kolo_comm_kind *has = under->kind;
    simulated *s = calloc(1, sizeof *s);
    if (!s) return kolo_fail_memory(sizeof *s, "a comm with a modelled clock");
    s->kind = (kolo_comm_kind){.name = has->name,
                               .allreduce = simulated_allreduce,
                               .broadcast = simulated_broadcast,
                               .allgather = simulated_allgather,
                               .allgatherv = simulated_allgatherv,
                               .alltoallv = simulated_alltoallv,
                               .barrier = simulated_barrier,
                               .meet = simulated_meet,
                               .send = simulated_send,
                               .receive = simulated_receive,
                               .probe = simulated_probe,
                               .split = has->split ? simulated_split : NULL,
                               .join = has->join ? simulated_join : NULL,
                               .wait_for_threads = has->wait_for_threads ? simulated_wait_for_threads : NULL,
                               .give_up = has->give_up ? simulated_give_up : NULL,
                               .abort = simulated_abort,
                               .abort_threads = has->abort_threads ? simulated_abort_threads : NULL,
                               .aborted = has->aborted ? simulated_aborted : NULL,
                               .lose = has->lose ? simulated_lose : NULL,
                               .close = simulated_close};
    s->comm = (kolo_comm){.kind = &s->kind, .rank = under->rank, .size = under->size};
    s->below = under;
    pthread_mutex_init(&s->lock, NULL);
    *comm = &s->comm;
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
