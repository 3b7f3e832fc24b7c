/* The ranks' comm as everything but MPI's own part sees it: without a fault a collective goes straight to the comm
 * behind it. A call whose message is lost (kolo_next_fate()) never gets there: the other ranks wait for this one until
 * their stall limit has passed, and this one waits for an answer. See fault.h. */
#include "runtime/fault.h"

#include <time.h>

#include "comm/call.h"
#include "comm/front.h"
#include "core/clock.h"
#include "runtime/runtime.h"

#define LATER 5 /* seconds after the limit, in which the other ranks say which rank is missing */
#define LOOK  20000000 /* nanoseconds between two looks for a request to stop */

static kolo_front lossy;

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

static kolo_collective call_of(const kolo_front_call *call)
{
    static const kolo_operation operations[KOLO_FRONT_KINDS] = {
        [KOLO_FRONT_ALLREDUCE] = KOLO_CALL_ALLREDUCE, [KOLO_FRONT_BROADCAST] = KOLO_CALL_BROADCAST,
        [KOLO_FRONT_ALLGATHER] = KOLO_CALL_ALLGATHER, [KOLO_FRONT_ALLGATHERV] = KOLO_CALL_ALLGATHERV,
        [KOLO_FRONT_ALLTOALLV] = KOLO_CALL_ALLTOALLV, [KOLO_FRONT_BARRIER] = KOLO_CALL_BARRIER};
    const kolo_collective *meeting = call->meeting;
    return meeting ? kolo_call_make((kolo_operation)meeting->operation, meeting->count)
                   : kolo_call_make(operations[call->kind], call->count);
}

/* Whether the call reaches the other ranks. */
static bool enter(kolo_front *front, kolo_front_call *call, kolo_status *status)
{
    (void)front;
    if (call->kind > KOLO_FRONT_MEET) return true; /* no data: it is no message of the fault lab's */
    kolo_fate fate = kolo_next_fate();
    if (fate == KOLO_FATE_ARRIVES) return true;
    kolo_collective lost = call_of(call);
    const kolo_calls calls = {.who = "rank"};
    *status = fate == KOLO_FATE_SKIPPED ? KOLO_OK : wait_in_vain(fate, kolo_call_text(&calls, &lost));
    return false;
}

static const kolo_front_hooks hooks = {.enter = enter};

/* A message that is lost is sent as far as the sender knows. */
static kolo_status lossy_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    kolo_comm *below = kolo_front_watched(comm);
    return kolo_next_fate() != KOLO_FATE_ARRIVES ? KOLO_OK : below->kind->send(below, data, bytes, to, tag);
}

static kolo_status lossy_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    kolo_comm *below = kolo_front_watched(comm);
    if (kolo_link_is_cut()) return wait_in_vain(KOLO_FATE_CUT, "a receive");
    return below->kind->receive(below, data, room, from, tag, message);
}

static kolo_status lossy_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    kolo_comm *below = kolo_front_below(comm);
    *there = false;
    return kolo_link_is_cut() ? KOLO_OK : below->kind->probe(below, from, tag, there, message);
}

static void lossy_give_up(kolo_comm *comm, int call, const char *why)
{
    kolo_comm *below = kolo_front_below(comm);
    if (!kolo_link_is_cut()) below->kind->give_up(below, call, why);
}

static void lossy_close(kolo_comm *comm)
{
    kolo_comm *below = kolo_front_below(comm);
    below->kind->close(below);
}

kolo_comm *kolo_lossy_comm(kolo_comm *ranks)
{
    kolo_front_open(&lossy, ranks, &hooks);
    lossy.kind.send = lossy_send;
    lossy.kind.receive = lossy_receive;
    lossy.kind.probe = lossy_probe;
    if (lossy.kind.give_up) lossy.kind.give_up = lossy_give_up;
    lossy.kind.close = lossy_close;
    return &lossy.comm;
}
