/* The seam for distribution: who computes what, and when do the replicas agree?
 *
 * A strategy runs as many replicas of the model as it asks for. Each replica has a thread of its own, and each thread
 * calls step() for every step, with the same batch. A strategy is what its step() does: mirrored.c writes the whole of
 * synchronous training in three lines. A learner's own strategy is the same struct, which .strategy =
 * kolo_strategy_of(&mine) hands to kolo_compile().
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
    /* The number of replicas that this process runs. Fails with a sentence if the options do not fit. */
    kolo_status (*replicas)(const kolo_strategy *strategy, int *count);
    /* One training step of one replica. A failure ends the fit on all replicas. */
    kolo_status (*step)(kolo_replica *replica, const kolo_batch *batch);
    /* NULL: KOLO_WEIGHTS_COPIED. */
    kolo_weight_placement (*weight_placement)(const kolo_strategy *strategy);
    /* The device that keeps the weights under KOLO_WEIGHTS_CENTRAL: "host", "cpu:0". NULL: what the option
     * .parameter_device says. */
    const char *(*parameter_device)(const kolo_strategy *strategy);
    /* It always has one replica, however many devices there are. */
    bool one_device;
    /* Any core of the process may compute any replica's microbatches, as far as the weights are shared: a step asks
     * nothing about one replica's samples alone. */
    bool shares_compute;
    /* A step does not read kolo_replica_totals(), so a GPU may deliver the totals some steps later. */
    bool totals_may_lag;
};

/* For strategies of several devices (devices.c): checks .devices, .device_names, .slicing and .initial_sync, and counts
 * the devices that they choose. Fails with a sentence. It serves as a kind's .replicas. */
kolo_status kolo_strategy_devices(const kolo_strategy *strategy, int *count);

/* ---- What a step is made of. ---- */

/* Forward and backward over this replica's shard of the batch. */
kolo_status kolo_replica_compute(kolo_replica *replica, const kolo_batch *batch);
/* The replica's gradient and totals become the sums over its group: all replicas of the process, and with
 * kolo_distributed() those of all ranks. In deterministic mode the sums have the same bits for any number of members.
 */
kolo_status kolo_replica_allreduce(kolo_replica *replica);
/* The same, but only the replica that keeps the weights gets the sum of the gradients. With KOLO_WEIGHTS_COPIED it is
 * the all-reduce. */
kolo_status kolo_replica_reduce(kolo_replica *replica);
/* One step of the optimizer with the replica's gradient, divided by the number of samples in its totals. */
kolo_status kolo_replica_update(kolo_replica *replica);

/* ---- Its parts, for strategies that keep copies and agree in another way. ---- */

/* The options that the strategy was given. */
const kolo_strategy *kolo_replica_strategy(const kolo_replica *replica);
/* The replica's group. */
kolo_comm *kolo_replica_comm(kolo_replica *replica);
/* The gradient, [weights], summed over the replica's samples. */
kolo_status kolo_replica_gradient(kolo_replica *replica, float **gradient);
/* The weights, [weights]. Of a GPU's replica they are a copy made by this call: call again after an update. After a
 * change of the weights call kolo_replica_pack(). */
float *kolo_replica_weights(kolo_replica *replica);
kolo_status kolo_replica_pack(kolo_replica *replica);
/* The number of weights. */
int64_t kolo_replica_count(const kolo_replica *replica);
/* Loss and metrics of the last compute. */
kolo_totals *kolo_replica_totals(kolo_replica *replica);

#endif
