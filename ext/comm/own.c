/* See own.h. */
#include "comm/own.h"

#include <stdio.h>
#include <stdlib.h>

#include "comm/call.h"

typedef struct own_comm {
    kolo_comm comm;
    const kolo_own_comm *own;
    kolo_comm *ranks;
} own_comm;

const char *kolo_own_comm_name(const kolo_own_comm *own)
{
    return own->name ? own->name : "of your own";
}

kolo_status kolo_own_comm_check(const kolo_own_comm *own)
{
    if (own->allreduce) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "comm %s: wanted a kolo_own_comm with an .allreduce, got NULL",
                     kolo_own_comm_name(own));
}

/* A message that failed has told why; the sentence here is for a caller that reports it elsewhere. The other ranks may
 * wait for messages that this rank will not send any more: give_up() tells them. */
kolo_status kolo_own_allreduce(const kolo_own_comm *own, kolo_comm *ranks, kolo_message_watch watch, float *values,
                               int64_t count)
{
    watch.call = ++ranks->own_calls;
    ranks->watch = &watch;
    kolo_status status = own->allreduce(values, count, own->user);
    ranks->watch = NULL;
    if (status == KOLO_OK && !watch.failed) return KOLO_OK;
    if (!watch.failed)
        snprintf(watch.why, sizeof watch.why, ".allreduce returned \"%s\" on rank %d", kolo_status_name(status),
                 ranks->rank);
    if (!watch.told && ranks->kind->give_up) ranks->kind->give_up(ranks, watch.call, watch.why);
    return kolo_fail(KOLO_COMM, "comm %s: the sum of %lld floats failed: %s", kolo_own_comm_name(own), (long long)count,
                     watch.why);
}

/* ---------------------------------------------------------------- after a failure */

static kolo_status drop_message(kolo_comm *ranks, const kolo_message *found)
{
    kolo_message message;
    void *data = malloc((size_t)found->bytes + 1);
    if (!data) return kolo_fail_memory((size_t)found->bytes, "a message");
    kolo_status status = ranks->kind->receive(ranks, data, (size_t)found->bytes, found->from,
                                              kolo_tag_of(found->tag, KOLO_TYPE_BYTE), &message);
    free(data);
    return status;
}

/* Receives what a failed call has left, so that the next one does not. The second time receives what was still under
 * way at the first. */
void kolo_drop_messages(kolo_comm *ranks)
{
    kolo_failure failure = kolo_failure_take();
    kolo_status status = KOLO_OK;
    for (int i = 0; i < 2 && status == KOLO_OK; i++) {
        kolo_message message;
        bool there = true;
        while (status == KOLO_OK && there) {
            status = ranks->kind->probe(ranks, KOLO_ANY_RANK, KOLO_ANY_TAG, &there, &message);
            if (status == KOLO_OK && there) status = drop_message(ranks, &message);
        }
        if (status == KOLO_OK) status = ranks->kind->barrier(ranks);
    }
    kolo_failure_take();
    kolo_failure_give(&failure);
}

/* Gives all members the failure of the first one that has failed. */
static kolo_status share_failure(const own_comm *me, const kolo_failure *mine)
{
    size_t bytes = (size_t)me->ranks->size * sizeof *mine;
    kolo_failure *all = malloc(bytes);
    if (!all) return kolo_fail_memory(bytes, "the ranks' failures");
    kolo_status status = me->ranks->kind->allgather(me->ranks, mine, sizeof *mine, all);
    for (int r = 0; r < me->ranks->size && status == KOLO_OK; r++)
        if (all[r].code != KOLO_OK) kolo_failure_give(&all[r]);
    free(all);
    return status == KOLO_OK ? KOLO_COMM : status;
}

/* Fails on all members if the call has failed on one. In a notebook they continue, so the remaining messages are
 * dropped. */
static kolo_status agree(const own_comm *me, kolo_status status)
{
    int32_t failed = status != KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    KOLO_TRY(me->ranks->kind->allreduce(me->ranks, &failed, 1, KOLO_TYPE_INT32, KOLO_REDUCE_MAX));
    if (!failed) return KOLO_OK;
    if (status == KOLO_OK) failure.code = KOLO_OK;
    status = share_failure(me, &failure);
    if (kolo_in_notebook()) kolo_drop_messages(me->ranks);
    return status;
}

/* The members compare their counts first, as in every collective. A function that waits for ever because it is wrong is
 * ended in a notebook, too. */
static kolo_status own_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    own_comm *me = (own_comm *)comm;
    if (type != KOLO_TYPE_FLOAT || reduction != KOLO_REDUCE_SUM)
        return me->ranks->kind->allreduce(me->ranks, values, count, type, reduction);
    kolo_collective call = kolo_call_own(count);
    KOLO_TRY(me->ranks->kind->meet(me->ranks, &call));
    kolo_message_watch watch = {.limit = kolo_message_limit(), .copies = kolo_in_notebook()};
    return agree(me, kolo_own_allreduce(me->own, me->ranks, watch, values, count));
}

/* ---------------------------------------------------------------- the comm of the ranks */

static kolo_comm *ranks_of(kolo_comm *comm)
{
    return ((own_comm *)comm)->ranks;
}

static kolo_status own_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    return ranks_of(comm)->kind->broadcast(ranks_of(comm), data, bytes, root);
}

static kolo_status own_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    return ranks_of(comm)->kind->allgather(ranks_of(comm), data, bytes, all);
}

static kolo_status own_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                  const size_t *offsets)
{
    return ranks_of(comm)->kind->allgatherv(ranks_of(comm), data, all, bytes, offsets);
}

static kolo_status own_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                 const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                 const size_t *receive_offsets)
{
    return ranks_of(comm)->kind->alltoallv(ranks_of(comm), send, send_bytes, send_offsets, receive, receive_bytes,
                                           receive_offsets);
}

static kolo_status own_barrier(kolo_comm *comm)
{
    return ranks_of(comm)->kind->barrier(ranks_of(comm));
}

static kolo_status own_meet(kolo_comm *comm, const kolo_collective *call)
{
    return ranks_of(comm)->kind->meet(ranks_of(comm), call);
}

static kolo_status own_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    return ranks_of(comm)->kind->send(ranks_of(comm), data, bytes, to, tag);
}

static kolo_status own_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    return ranks_of(comm)->kind->receive(ranks_of(comm), data, room, from, tag, message);
}

static kolo_status own_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    return ranks_of(comm)->kind->probe(ranks_of(comm), from, tag, there, message);
}

static void own_give_up(kolo_comm *comm, int call, const char *why)
{
    if (ranks_of(comm)->kind->give_up) ranks_of(comm)->kind->give_up(ranks_of(comm), call, why);
}

static void own_abort(kolo_comm *comm)
{
    ranks_of(comm)->kind->abort(ranks_of(comm));
}

static bool own_aborted(const kolo_comm *comm)
{
    const kolo_comm *ranks = ((const own_comm *)comm)->ranks;
    return ranks->kind->aborted && ranks->kind->aborted(ranks);
}

static void own_close(kolo_comm *comm)
{
    free(comm);
}

static const kolo_comm_kind own_kind = {
    .name = "own",
    .allreduce = own_allreduce,
    .broadcast = own_broadcast,
    .allgather = own_allgather,
    .allgatherv = own_allgatherv,
    .alltoallv = own_alltoallv,
    .barrier = own_barrier,
    .meet = own_meet,
    .send = own_send,
    .receive = own_receive,
    .probe = own_probe,
    .give_up = own_give_up,
    .abort = own_abort,
    .aborted = own_aborted,
    .close = own_close,
};

kolo_status kolo_comm_own_open(const kolo_own_comm *own, kolo_comm *ranks, kolo_comm **comm)
{
    own_comm *made = malloc(sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a group of ranks");
    *made =
        (own_comm){.comm = {.kind = &own_kind, .rank = ranks->rank, .size = ranks->size}, .own = own, .ranks = ranks};
    *comm = &made->comm;
    return KOLO_OK;
}
