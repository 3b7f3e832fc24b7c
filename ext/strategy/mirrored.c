/* Mirrored: synchronous data parallelism in one process.
 *
 * A step deals the batch out, sums the gradients of all devices, updates, and gives every device the new weights. The
 * options say where the sum is made and who updates:
 *
 *   none of the following: the devices share a memory. The gradients of their microbatches are added up in one tree as
 *     they are ready, each device updates a shard of the weights, and all devices read them in place. Where there are
 *     fewer cores than devices, each core takes microbatches of all devices, so that no device waits for its turn.
 *   .synchronized_optimizer: the gradients are summed by an all-reduce. Then every device makes the same update of its
 *     own copy of the weights, so the copies stay equal without a comparison.
 *   .parameter_device: all gradients go to that device. It makes one update, and all devices read the weights there.
 */
#include "strategy/strategy.h"

static kolo_weight_placement weight_placement(const kolo_strategy *strategy)
{
    if (strategy->parameter_device) return KOLO_WEIGHTS_CENTRAL;
    bool copies = strategy->synchronized_optimizer || strategy->initial_sync == KOLO_NONE;
    return copies ? KOLO_WEIGHTS_COPIED : KOLO_WEIGHTS_SHARED;
}

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    bool all = kolo_replica_strategy(replica)->synchronized_optimizer;
    KOLO_TRY(all ? kolo_replica_allreduce(replica) : kolo_replica_reduce(replica));
    return kolo_replica_update(replica);
}

const kolo_strategy_kind kolo_mirrored_kind = {.name = "mirrored",
                                               .replicas = kolo_strategy_devices,
                                               .step = step,
                                               .weight_placement = weight_placement,
                                               .shares_compute = true,
                                               .totals_may_lag = true};
