/* The centre of a strategy of workers: the monitor that deals out batches, decides the order of exchanges, and counts.
 * The weights that workers exchange with are in parts (center_parts.h), of which ranks may keep some each. See
 * strategy/strategy.h for what a strategy does in an exchange.
 *
 * The threads of a process call it directly. A worker of another rank has a thread on the centre's rank that calls it
 * in its place (center_link.h). A call blocks while the worker has to wait for others. Each worker makes one call at a
 * time.
 */
#ifndef KOLO_REPLICA_CENTER_H
#define KOLO_REPLICA_CENTER_H

#include "replica/center_parts.h"
#include "replica/turns.h"

typedef struct kolo_center kolo_center;

/* `parts` are those of this rank, and must stay until the centre is closed. */
kolo_status kolo_center_open(kolo_center_parts *parts, kolo_center **center);
void kolo_center_close(kolo_center **center); /* takes NULL */

/* Calls give_up() for a worker that trains or exchanges for longer than kolo_stall_limit(), and ten times as long as
 * any before. true: soon it will be lost (kolo_center_lose()), and the others go on. Otherwise, and without the
 * function, the epoch fails. It is called with the centre's lock held. */
void kolo_center_may_give_up(kolo_center *center, bool (*give_up)(void *owner, int worker, double limit), void *owner);

/* The centre and all workers begin with these weights, after so many updates by the optimizer. No worker exchanges. */
void kolo_center_set(kolo_center *center, const float *weights, int64_t updates);
/* Copies the weights of the parts of this rank, as they are between two exchanges. Any thread, at any time. */
void kolo_center_get(kolo_center *center, float *weights);
/* A ticket for a visit of all parts between two exchanges. Every part has to be visited. */
kolo_ticket kolo_center_visit(kolo_center *center);
/* Copies a worker's weights after its last exchange, and the totals of its batches in the current epoch. NULL: not
 * wanted. */
void kolo_center_worker(kolo_center *center, int worker, float *weights, kolo_totals *totals);

/* ---- An epoch. Epochs are counted since the centre was opened, from 1. ---- */

typedef struct kolo_center_epoch {
    int steps, window; /* batches of the epoch, and between two exchanges of a worker */
    const kolo_turns *turns; /* the order of exchanges; must stay until the epoch's end. NULL: as it happens */
    kolo_turns *record; /* gets the order that happens, if turns is NULL. NULL: nobody wants it */
    kolo_shards shards; /* of which workers take their batches; must stay until the epoch's end */
} kolo_center_epoch;

/* Begins the next epoch. Workers that wait for it go on. */
void kolo_center_begin(kolo_center *center, const kolo_center_epoch *epoch);
/* Ends the epoch before all batches are trained on. stop: workers exchange what they have learnt, unless it is not
 * their turn. fail: calls of workers fail with KOLO_COMM_CALLED_OFF. */
void kolo_center_stop(kolo_center *center);
void kolo_center_fail(kolo_center *center);
/* Waits until no worker has to exchange any more, and ends the epoch: the order is not used again. Fails if the epoch
 * has failed. */
kolo_status kolo_center_finish(kolo_center *center);
/* The epoch's batches that workers have trained on so far, and the totals over them, which may be NULL. */
int kolo_center_trained(kolo_center *center, kolo_totals *totals);
/* Whether the epoch was stopped before its end, and whether it has failed. */
bool kolo_center_stopped(kolo_center *center);
bool kolo_center_failed(kolo_center *center);
/* Sets the learning rate of the batches that are dealt out from now on. */
void kolo_center_set_rate(kolo_center *center, double rate);
int64_t kolo_center_updates(kolo_center *center);

/* ---- Calls of workers ----
 *
 * A call that still has to wait for others after `seconds` (0: never) returns, and is to be made again: the answer to a
 * worker of another rank says that the centre is there. */

typedef enum kolo_task_kind { KOLO_TASK_TRAIN = 1, KOLO_TASK_EXCHANGE, KOLO_TASK_END, KOLO_TASK_WAIT } kolo_task_kind;

typedef struct kolo_task {
    kolo_task_kind kind;
    int batch; /* to train on, in the epoch, from 0 */
    double learning_rate; /* for this batch */
} kolo_task;

/* What the worker has to do next in this epoch. Waits for the epoch to begin; in an epoch that is over it is
 * KOLO_TASK_END; KOLO_TASK_WAIT after `seconds`. */
kolo_status kolo_center_next(kolo_center *center, int worker, int64_t epoch, double seconds, kolo_task *task);
/* The worker has trained on the batch that it was given, with these totals. */
void kolo_center_report(kolo_center *center, int worker, int64_t epoch, const kolo_totals *totals);

/* With all parts on this rank. *done: the exchange was made; false after `seconds`. */
kolo_status kolo_center_exchange(kolo_center *center, int worker, const kolo_offer *offer, double seconds, bool *done);

/* With parts on several ranks an exchange has three steps. The centre admits it; the worker exchanges with each part by
 * itself, in their order; it says that it has done so. */
typedef struct kolo_admission {
    bool done; /* false after `seconds` */
    bool comes; /* otherwise the epoch was stopped before the worker's turn, and there is no exchange */
    int batches; /* that the worker has trained on since its last exchange */
    kolo_ticket ticket;
} kolo_admission;
kolo_status kolo_center_admit(kolo_center *center, int worker, double samples, double seconds,
                              kolo_admission *admission);
void kolo_center_exchanged(kolo_center *center, int worker);
/* Fails if the epoch has. For a worker that waits at a part. */
kolo_status kolo_center_check(kolo_center *center);

/* The worker will make no more calls. Others of its shard train on its batches if the order of exchanges is not fixed;
 * otherwise its turns are left out. Batches of a shard without workers are left out. A worker that is lost between
 * admission and exchange may have exchanged with some of the parts: then its batches count as trained. */
void kolo_center_lose(kolo_center *center, int worker);
/* The rank is gone, and the parts with it: this epoch and all later ones fail. */
void kolo_center_lose_server(kolo_center *center, int rank);
bool kolo_center_lost_server(kolo_center *center);
/* The number of workers that were lost; *last: the one that was lost last. */
int kolo_center_lost(kolo_center *center, int *last);
/* Exchanges of others since a worker's last one, between two epochs. */
int64_t kolo_center_behind(kolo_center *center, int worker);
void kolo_center_set_behind(kolo_center *center, int worker, int64_t behind);
/* Sets gone[workers] for those. */
void kolo_center_mark_lost(kolo_center *center, bool *gone);

#endif
