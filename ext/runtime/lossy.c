/* The ranks' comm as everything but MPI's own part sees it: without a fault a collective goes straight to the comm
 * behind it. A call whose message is lost (kolo_next_fate()) never gets there: the other ranks wait for this one until
 * their stall limit has passed, and this one waits for an answer. See fault.h. */
#include "runtime/fault.h"

#include <time.h>

#include "comm/call.h"
#include "core/clock.h"
#include "runtime/runtime.h"

#define LATER 5 /* seconds after the limit, in which the other ranks say which rank is missing */
#define LOOK  20000000 /* nanoseconds between two looks for a request to stop */

static struct lossy {
    kolo_comm comm;
    kolo_comm *inner;
    kolo_comm_kind kind; /* without the members that `inner` has not */
} lossy;

/* Waits for an answer that will not come. Without a limit this is for ever, but for a notebook's interrupt. */
static kolo_status wait_in_vain(kolo_fate fate, const char *text)
{
    double limit = kolo_stall_limit(), begun = kolo_now();
    while (limit == 0 || kolo_now() - begun < limit + LATER) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK}, NULL);
        /* Asking is a sign of life, for which others would wait. Without a limit they wait anyway. */
        if (limit == 0 && kolo_stop_requested())
            return kolo_fail(KOLO_INTERRUPTED, "stopped while waiting in %s", text);
    }
    return kolo_fail(KOLO_COMM, "rank %d has waited %g s in %s: %s, as it was asked for", lossy.comm.rank,
                     limit + LATER, text, fate == KOLO_FATE_CUT ? "its link is cut" : "its message was dropped");
}

/* Whether the call does not reach the other ranks. *status is then its result. */
static bool is_lost(kolo_operation operation, int64_t count, kolo_status *status)
{
    kolo_fate fate = kolo_next_fate();
    if (fate == KOLO_FATE_ARRIVES) return false;
    kolo_collective call = kolo_call_make(operation, count);
    const kolo_calls calls = {.who = "rank"};
    *status = fate == KOLO_FATE_SKIPPED ? KOLO_OK : wait_in_vain(fate, kolo_call_text(&calls, &call));
    return true;
}

static kolo_status lossy_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                   kolo_reduce_op reduction)
{
    kolo_status status;
    (void)comm;
    kolo_comm *inner = lossy.inner;
    if (is_lost(KOLO_CALL_ALLREDUCE, count, &status)) return status;
    return inner->kind->allreduce(inner, values, count, type, reduction);
}

static kolo_status lossy_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    kolo_status status;
    (void)comm;
    kolo_comm *inner = lossy.inner;
    if (is_lost(KOLO_CALL_BROADCAST, (int64_t)bytes, &status)) return status;
    return inner->kind->broadcast(inner, data, bytes, root);
}

static kolo_status lossy_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    kolo_status status;
    (void)comm;
    kolo_comm *inner = lossy.inner;
    if (is_lost(KOLO_CALL_ALLGATHER, (int64_t)bytes, &status)) return status;
    return inner->kind->allgather(inner, data, bytes, all);
}

static kolo_status lossy_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                    const size_t *offsets)
{
    kolo_status status;
    kolo_comm *inner = lossy.inner;
    if (is_lost(KOLO_CALL_ALLGATHERV, (int64_t)bytes[comm->rank], &status)) return status;
    return inner->kind->allgatherv(inner, data, all, bytes, offsets);
}

static kolo_status lossy_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                   const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                   const size_t *receive_offsets)
{
    kolo_status status;
    (void)comm;
    kolo_comm *inner = lossy.inner;
    if (is_lost(KOLO_CALL_ALLTOALLV, 0, &status)) return status;
    return inner->kind->alltoallv(inner, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets);
}

static kolo_status lossy_barrier(kolo_comm *comm)
{
    kolo_status status;
    (void)comm;
    kolo_comm *inner = lossy.inner;
    if (is_lost(KOLO_CALL_BARRIER, 0, &status)) return status;
    return inner->kind->barrier(inner);
}

static kolo_status lossy_meet(kolo_comm *comm, const kolo_collective *call)
{
    kolo_status status;
    (void)comm;
    kolo_comm *inner = lossy.inner;
    if (is_lost((kolo_operation)call->operation, call->count, &status)) return status;
    return inner->kind->meet(inner, call);
}

/* A message that is lost is sent as far as the sender knows. */
static kolo_status lossy_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    kolo_comm *inner = lossy.inner;
    inner->watch = comm->watch;
    return kolo_next_fate() != KOLO_FATE_ARRIVES ? KOLO_OK : inner->kind->send(inner, data, bytes, to, tag);
}

static kolo_status lossy_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    kolo_comm *inner = lossy.inner;
    inner->watch = comm->watch;
    if (kolo_link_is_cut()) return wait_in_vain(KOLO_FATE_CUT, "a receive");
    return inner->kind->receive(inner, data, room, from, tag, message);
}

static kolo_status lossy_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    (void)comm;
    kolo_comm *inner = lossy.inner;
    *there = false;
    if (kolo_link_is_cut()) return KOLO_OK;
    return inner->kind->probe(inner, from, tag, there, message);
}

static kolo_status lossy_split(kolo_comm *comm, int color, kolo_comm **part)
{
    (void)comm;
    return lossy.inner->kind->split(lossy.inner, color, part);
}

static kolo_status lossy_join(kolo_comm *comm, int *last)
{
    (void)comm;
    return lossy.inner->kind->join(lossy.inner, last);
}

static kolo_status lossy_wait_for_threads(kolo_comm *comm)
{
    (void)comm;
    kolo_comm *inner = lossy.inner;
    return inner->kind->wait_for_threads(inner);
}

static void lossy_give_up(kolo_comm *comm, int call, const char *why)
{
    (void)comm;
    kolo_comm *inner = lossy.inner;
    if (!kolo_link_is_cut()) inner->kind->give_up(inner, call, why);
}

static void lossy_abort(kolo_comm *comm)
{
    (void)comm;
    lossy.inner->kind->abort(lossy.inner);
}

static void lossy_abort_threads(kolo_comm *comm)
{
    (void)comm;
    lossy.inner->kind->abort_threads(lossy.inner);
}

static bool lossy_aborted(const kolo_comm *comm)
{
    (void)comm;
    return lossy.inner->kind->aborted(lossy.inner);
}

static void lossy_lose(kolo_comm *comm)
{
    (void)comm;
    lossy.inner->kind->lose(lossy.inner);
}

static void lossy_close(kolo_comm *comm)
{
    (void)comm;
    lossy.inner->kind->close(lossy.inner);
}

kolo_comm *kolo_lossy_comm(kolo_comm *ranks)
{
    const kolo_comm_kind *has = ranks->kind;
    lossy.inner = ranks;
    lossy.kind = (kolo_comm_kind){.name = has->name,
                                  .allreduce = lossy_allreduce,
                                  .broadcast = lossy_broadcast,
                                  .allgather = lossy_allgather,
                                  .allgatherv = lossy_allgatherv,
                                  .alltoallv = lossy_alltoallv,
                                  .barrier = lossy_barrier,
                                  .meet = lossy_meet,
                                  .send = lossy_send,
                                  .receive = lossy_receive,
                                  .probe = lossy_probe,
                                  .split = has->split ? lossy_split : NULL,
                                  .join = has->join ? lossy_join : NULL,
                                  .wait_for_threads = has->wait_for_threads ? lossy_wait_for_threads : NULL,
                                  .give_up = has->give_up ? lossy_give_up : NULL,
                                  .abort = lossy_abort,
                                  .abort_threads = has->abort_threads ? lossy_abort_threads : NULL,
                                  .aborted = has->aborted ? lossy_aborted : NULL,
                                  .lose = has->lose ? lossy_lose : NULL,
                                  .close = lossy_close};
    lossy.comm = (kolo_comm){.kind = &lossy.kind, .rank = ranks->rank, .size = ranks->size};
    return &lossy.comm;
}
