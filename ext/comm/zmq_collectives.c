/* The collectives between ranks that talk by ZeroMQ: see zmq_comm.h.
 *
 * Every collective begins with meet(): each rank sends its call to all others, and compares all calls. The data go
 * directly from each rank to each other. An all-reduce is a reduce-scatter and an all-gather, as in local.c: rank r
 * reduces slice r of all ranks' values, always in the order of the ranks, and sends the result to all. So each rank
 * sends 2 (n − 1) / n of the values, which is the least that is possible, and all have the same bits. */
#include <stdlib.h>
#include <string.h>

#include "comm/sum.h"
#include "comm/zmq_comm.h"
#include "core/clock.h"
#include "core/timeline.h"

/* ---------------------------------------------------------------- meeting */

static kolo_calls calls_of(const zmq_comm *me)
{
    return (kolo_calls){.first = me->calls, .stride = sizeof *me->calls, .size = me->comm.size, .who = "rank"};
}

/* Takes the calls that have arrived; returns the number of ranks that have come. A rank that has left makes no more
 * calls: its last one stays in me->calls. */
static int take_calls(zmq_comm *me, bool *came, uint64_t *life)
{
    int count = 0;
    *life = 0;
    for (int r = 0; r < me->comm.size; r++) {
        bool finished = me->calls[r].operation == KOLO_CALL_FINISH;
        letter *call = came[r] || finished ? NULL : kolo_zmq_find(me, LETTER_CALL, r, KOLO_ANY_TAG);
        if (call) memcpy(&me->calls[r], call->data, sizeof *me->calls);
        came[r] = came[r] || finished || call;
        if (!came[r]) *life += kolo_zmq_life(me, r);
        count += came[r];
        kolo_zmq_free_letter(call);
    }
    return count;
}

static kolo_status wait_for_all(zmq_comm *me, bool *came)
{
    kolo_calls calls = calls_of(me);
    kolo_stall stall = {.limit = me->stall_limit};
    uint64_t life;
    for (int count; (count = take_calls(me, came, &life)) < me->comm.size;) {
        if (kolo_stall_passed(&stall, count, life)) return kolo_calls_stalled(&calls, came, me->stall_limit);
        KOLO_TRY(kolo_zmq_pump(me, ZMQ_TURN));
        if (take_calls(me, came, &life) == count) KOLO_TRY(kolo_zmq_check_peers(me));
    }
    return kolo_calls_compare(&calls);
}

static kolo_status meet(kolo_comm *comm, const kolo_collective *call)
{
    zmq_comm *me = (zmq_comm *)comm;
    KOLO_TRY(kolo_zmq_check_peers(me));
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && !kolo_zmq_has_left(me, r))
            KOLO_TRY(kolo_zmq_post(me, r, (letter_head){LETTER_CALL, 0}, call, sizeof *call));
    bool *came = calloc((size_t)comm->size, sizeof *came);
    if (!came) return kolo_fail_memory((size_t)comm->size, "a meeting of ranks");
    me->calls[comm->rank] = *call;
    came[comm->rank] = true;
    int64_t begun = kolo_timeline_begin();
    kolo_status status = wait_for_all(me, came);
    kolo_timeline_end(begun, KOLO_SPAN_WAIT, "ranks");
    me->met = kolo_now();
    free(came);
    return status;
}

/* ---------------------------------------------------------------- exchanges */

static kolo_status post_data(kolo_comm *comm, int to, const void *data, size_t bytes)
{
    return kolo_zmq_post((zmq_comm *)comm, to, (letter_head){LETTER_DATA, 0}, data, bytes);
}

/* Each begins with its neighbour, so that not all send to the same rank first. */
static kolo_status exchange(kolo_comm *comm, const char *send, const size_t *send_bytes, const size_t *send_offsets,
                            char *receive, const size_t *receive_bytes, const size_t *receive_offsets)
{
    int rank = comm->rank, size = comm->size;
    kolo_copy_bytes(receive + receive_offsets[rank], send + send_offsets[rank], receive_bytes[rank]);
    for (int i = 1; i < size; i++) {
        int to = (rank + i) % size;
        KOLO_TRY(post_data(comm, to, send + send_offsets[to], send_bytes[to]));
    }
    for (int i = 1; i < size; i++) {
        int from = (rank - i + size) % size;
        KOLO_TRY(kolo_zmq_take_data((zmq_comm *)comm, from, receive + receive_offsets[from], receive_bytes[from]));
    }
    return KOLO_OK;
}

static kolo_status zmq_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                 const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                 const size_t *receive_offsets)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_ALLTOALLV, 0);
    KOLO_TRY(meet(comm, &call));
    return exchange(comm, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets);
}

/* Sends the same part to all. */
static kolo_status gather(kolo_comm *comm, const void *data, void *all, const size_t *bytes, const size_t *offsets)
{
    size_t size = (size_t)comm->size, *send_bytes = calloc(2 * size, sizeof *send_bytes);
    if (!send_bytes) return kolo_fail_memory(2 * size * sizeof *send_bytes, "messages between ranks");
    for (size_t i = 0; i < size; i++) send_bytes[i] = bytes[comm->rank];
    kolo_status status = exchange(comm, data, send_bytes, send_bytes + size, all, bytes, offsets);
    free(send_bytes);
    return status;
}

static kolo_status zmq_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                  const size_t *offsets)
{
    kolo_collective call = kolo_call_allgatherv(bytes, comm->size);
    KOLO_TRY(meet(comm, &call));
    return gather(comm, data, all, bytes, offsets);
}

static kolo_status zmq_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    size_t size = (size_t)comm->size, *parts = calloc(2 * size, sizeof *parts);
    if (!parts) return kolo_fail_memory(2 * size * sizeof *parts, "messages between ranks");
    for (size_t i = 0; i < size; i++) {
        parts[i] = bytes;
        parts[size + i] = i * bytes;
    }
    kolo_collective call = kolo_call_make(KOLO_CALL_ALLGATHER, (int64_t)bytes);
    kolo_status status = meet(comm, &call);
    if (status == KOLO_OK) status = gather(comm, data, all, parts, parts + size);
    free(parts);
    return status;
}

static kolo_status zmq_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    kolo_collective call = kolo_call_broadcast(bytes, root);
    KOLO_TRY(meet(comm, &call));
    if (comm->rank != root) return kolo_zmq_take_data((zmq_comm *)comm, root, data, bytes);
    for (int i = 1; i < comm->size; i++) KOLO_TRY(post_data(comm, (root + i) % comm->size, data, bytes));
    return KOLO_OK;
}

static kolo_status zmq_barrier(kolo_comm *comm)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_BARRIER, 0);
    return meet(comm, &call);
}

/* ---------------------------------------------------------------- all-reduce */

static kolo_status reduce_and_gather(kolo_comm *comm, const kolo_slices *s, char *values, kolo_type type,
                                     kolo_reduce_op reduction)
{
    KOLO_TRY(exchange(comm, values, s->bytes, s->offsets, s->copies, s->own, s->places));
    void **from = calloc((size_t)comm->size, sizeof *from);
    if (!from) return kolo_fail_memory((size_t)comm->size * sizeof *from, "an all-reduce");
    for (int r = 0; r < comm->size; r++) from[r] = s->copies + s->places[r];
    int64_t mine = (int64_t)(s->bytes[comm->rank] / kolo_type_bytes(type));
    kolo_reduce_slice(type, reduction, from, comm->size, from, 1, 0, mine);
    free(from);
    return gather(comm, s->copies, values, s->bytes, s->offsets);
}

static kolo_status zmq_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    kolo_slices slices;
    kolo_collective call = kolo_call_allreduce(count, type, reduction);
    kolo_status status = meet(comm, &call);
    if (status != KOLO_OK || count == 0) return status;
    status = kolo_slices_open(&slices, comm, count, type, kolo_type_bytes(type));
    if (status == KOLO_OK) status = reduce_and_gather(comm, &slices, values, type, reduction);
    kolo_slices_close(&slices);
    return status;
}

/* ---------------------------------------------------------------- the kind */

/* Tells the other ranks, whose calls then fail. */
static void zmq_abort(kolo_comm *comm)
{
    zmq_comm *me = (zmq_comm *)comm;
    if (atomic_exchange(&me->aborted, true)) return;
    kolo_failure failure = kolo_failure_take();
    for (int r = 0; r < comm->size; r++) {
        if (kolo_zmq_hears(me, r) &&
            kolo_zmq_post(me, r, (letter_head){LETTER_FAILED, me->culprit}, NULL, 0) != KOLO_OK)
            kolo_failure_take();
    }
    if (failure.code != KOLO_OK) kolo_failure_give(&failure);
}

static bool zmq_aborted(const kolo_comm *comm)
{
    return atomic_load(&((const zmq_comm *)comm)->aborted);
}

/* A letter to a rank that is gone will never be sent. Closing the context must not wait for it. */
static void close_link(peer *closed)
{
    int never = 0;
    if (closed->link && (closed->left || closed->gone)) zmq_setsockopt(closed->link, ZMQ_LINGER, &never, sizeof never);
    if (closed->monitor) zmq_close(closed->monitor);
    if (closed->link) zmq_close(closed->link);
}

static void zmq_close_comm(kolo_comm *comm)
{
    zmq_comm *me = (zmq_comm *)comm;
    if (me->items && kolo_zmq_pump(me, 0) != KOLO_OK) kolo_failure_take(); /* notes which ranks have left */
    for (int r = 0; me->peers && r < comm->size; r++) close_link(&me->peers[r]);
    if (me->monitor) zmq_close(me->monitor);
    if (me->listener) zmq_close(me->listener);
    for (letter *at = me->first, *next; at; at = next) {
        next = at->next;
        kolo_zmq_free_letter(at);
    }
    if (me->context) zmq_ctx_term(me->context); /* waits until the last letters are sent, or LINGER has passed */
    kolo_cluster_free(&me->cluster);
    free(me->items);
    free(me->peers);
    free(me->calls);
    pthread_mutex_destroy(&me->lock);
    free(me);
}

const kolo_comm_kind kolo_zmq_kind = {
    .name = "zmq",
    .allreduce = zmq_allreduce,
    .broadcast = zmq_broadcast,
    .allgather = zmq_allgather,
    .allgatherv = zmq_allgatherv,
    .alltoallv = zmq_alltoallv,
    .barrier = zmq_barrier,
    .meet = meet,
    .send = kolo_zmq_send,
    .receive = kolo_zmq_receive,
    .probe = kolo_zmq_probe,
    .give_up = kolo_zmq_give_up,
    .abort = zmq_abort,
    .aborted = zmq_aborted,
    .close = zmq_close_comm,
};
