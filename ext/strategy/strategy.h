/* The seam for distribution: who computes what, and when do they agree?
 *
 * A strategy runs as many replicas as it asks for, each in a thread of its own, and each calls step() for every step,
 * with the same batch. What a step does is the strategy: mirrored.c is the whole of synchronous training in three
 * lines. A learner's own strategy is the same struct, given as `.strategy = kolo_strategy_of(&mine)`.
 */
#ifndef KOLO_STRATEGY_H
#define KOLO_STRATEGY_H

#include "backend/weight_placement.h"
#include "comm/comm.h"
#include "data/batch.h"
#include "losses/totals.h"

typedef struct kolo_replica kolo_replica;

struct kolo_strategy_kind {
    const char *name; /* "mirrored" */
    /* How many replicas this process runs; fails with a sentence if the options do not fit. */
    kolo_status (*replicas)(const kolo_strategy *strategy, int *count);
    /* One training step of one replica. A failure ends the fit on all of them. */
    kolo_status (*step)(kolo_replica *replica, const kolo_batch *batch);
    kolo_weight_placement (*weight_placement)(const kolo_strategy *strategy); /* NULL: copies */
    bool late_totals; /* its step looks neither at totals nor at counters, which may then come some steps later */
    bool mergeable; /* where there are fewer cores than replicas, these may be computed as one, whose lanes take the
                       samples of all */
};

/* What a step is made of. */

/* Forward and backward over this replica's shard of the batch. */
kolo_status kolo_replica_compute(kolo_replica *replica, const kolo_batch *batch);
/* Its gradient and totals become the sums over all members of its group: all replicas, and with kolo_distributed()
 * those of all ranks. The same bits for any number of members in deterministic mode. */
kolo_status kolo_replica_allreduce(kolo_replica *replica);
/* The same, but the gradient's sum goes only where the weights are kept. With copies it is the all-reduce. */
kolo_status kolo_replica_reduce(kolo_replica *replica);
/* One step of the optimizer with its gradient, averaged over the samples in its totals. */
kolo_status kolo_replica_update(kolo_replica *replica);

/* Its parts, for strategies that agree in another way and keep copies. */
kolo_comm *kolo_replica_comm(kolo_replica *replica); /* its group */
kolo_status kolo_replica_gradient(kolo_replica *replica, float **gradient); /* [weights], summed over its samples */
/* [weights], a device's as they are at this call: ask again after an update. After a change call kolo_replica_pack().
 */
float *kolo_replica_weights(kolo_replica *replica);
kolo_status kolo_replica_pack(kolo_replica *replica);
int64_t kolo_replica_count(const kolo_replica *replica); /* weights */
kolo_totals *kolo_replica_totals(kolo_replica *replica); /* of the last compute */

#endif
