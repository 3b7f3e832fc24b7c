/* Collectives that run while their caller computes: a comm with a queue and a thread in front of another comm.
 *
 * A request is a piece of work that calls collectives. Requests run one after the other, in the order of their start,
 * in the queue's thread. A collective that is called directly first waits until all requests are done, and then runs in
 * the caller's thread. So the members' calls meet in the order in which each member has made them, and a comm below,
 * which serves one thread at a time, needs no change. The thread is started by the first request.
 *
 * Messages (send, receive, probe) are no collectives, and do not wait for requests. A part of the group (split) uses
 * the queue of the group: its collectives and the group's meet in one order, too.
 */
#ifndef KOLO_COMM_QUEUE_H
#define KOLO_COMM_QUEUE_H

#include <stdatomic.h>

#include "comm/comm.h"

/* The caller's; it stays at its address until kolo_request_wait() has returned. Zeros are no request. */
typedef struct kolo_request {
    kolo_status (*run)(kolo_comm *comm, void *argument); /* `comm` is the queue */
    void *argument;
    kolo_comm *comm;
    kolo_scope scope; /* of the call that has started it: failures name its place */
    kolo_failure failure;
    double seconds; /* how long it ran, waiting for the other members included */
    atomic_bool done;
    struct kolo_request *next;
} kolo_request;

/* *comm becomes a queue in front of `below`, which the caller closes after it. Closing the queue waits for its
 * requests. */
kolo_status kolo_comm_queue_open(kolo_comm *below, kolo_comm **comm);

/* Starts a request. Any thread may call it. Where `comm` is no queue, the request runs at once. A failure of run() is
 * the result of kolo_request_wait(); this call fails only if nothing was started. */
kolo_status kolo_request_start(kolo_comm *comm, kolo_request *request,
                               kolo_status (*run)(kolo_comm *comm, void *argument), void *argument);
/* Whether the request has run. Does not wait. */
bool kolo_request_is_done(const kolo_request *request);
/* Waits for a request that was started, and fails as it has failed. */
kolo_status kolo_request_wait(kolo_request *request);
/* Fails if this process is a child that was forked after the queue was opened. Its other calls fail, too, except on a
 * comm that is no queue. */
kolo_status kolo_comm_queue_check(const kolo_comm *comm);
/* Fails the requests that have not begun yet: for a member that has failed and will not start what the other members
 * wait for. */
void kolo_comm_queue_drop(kolo_comm *comm);

#endif
