/* A comm in front of another one: its calls go to the comm below, between two hooks. For the queue (queue.h), the
 * modelled clock (simulated.h) and lost messages (runtime/lossy.c). */
#ifndef KOLO_COMM_FRONT_H
#define KOLO_COMM_FRONT_H

#include "comm/comm.h"

typedef enum kolo_front_kind {
    KOLO_FRONT_ALLREDUCE,
    KOLO_FRONT_BROADCAST,
    KOLO_FRONT_ALLGATHER,
    KOLO_FRONT_ALLGATHERV,
    KOLO_FRONT_ALLTOALLV,
    KOLO_FRONT_BARRIER,
    KOLO_FRONT_MEET,
    KOLO_FRONT_JOIN,
    KOLO_FRONT_THREADS, /* wait_for_threads() */
    KOLO_FRONT_SPLIT,
    KOLO_FRONT_KINDS
} kolo_front_kind;

/* A collective. */
typedef struct kolo_front_call {
    kolo_front_kind kind;
    int64_t count; /* as in kolo_call_make() */
    size_t bytes; /* that this member gives */
    size_t gathered; /* of an allgather or allgatherv: that it gets */
    const kolo_collective *meeting; /* of KOLO_FRONT_MEET */
    int64_t begun; /* for the hooks; 0 at first */
} kolo_front_call;

typedef struct kolo_front kolo_front;

/* Each hook may be NULL. */
typedef struct kolo_front_hooks {
    /* Before a collective. Returns whether the call goes on to the comm below; otherwise *status is its result. */
    bool (*enter)(kolo_front *front, kolo_front_call *call, kolo_status *status);
    /* Behind a collective that went there and gave `status`. Returns the call's result. */
    kolo_status (*leave)(kolo_front *front, const kolo_front_call *call, kolo_status status);
} kolo_front_hooks;

/* A comm that is in front has this as the first member of its struct. */
struct kolo_front {
    kolo_comm comm;
    kolo_comm_kind kind; /* without the calls that `below` does not have */
    kolo_comm *below;
    const kolo_front_hooks *hooks;
};

/* Puts `front` in front of `below`. All calls but close() go there; messages and the calls behind them have no hooks.
 * Then the caller sets front->kind.close, and replaces what it does itself, where front->kind has it at all. */
void kolo_front_open(kolo_front *front, kolo_comm *below, const kolo_front_hooks *hooks);

/* The comm below. */
static inline kolo_comm *kolo_front_below(const kolo_comm *comm)
{
    return ((const kolo_front *)comm)->below;
}

/* For a message: the comm below, with the caller's watch. */
static inline kolo_comm *kolo_front_watched(const kolo_comm *comm)
{
    kolo_comm *below = kolo_front_below(comm);
    below->watch = comm->watch;
    return below;
}

#endif
