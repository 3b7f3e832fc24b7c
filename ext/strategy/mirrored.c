/* Mirrored: synchronous data parallelism in one process.
 *
 * Each device computes a shard of the batch. The step then sums the gradients of all devices and updates the weights.
 * The options decide where the sum is made and which device updates:
 *
 *   none of the following: the devices share one set of weights in the host's memory. One reduction tree adds the
 *     gradients of their microbatches as soon as they are ready. Each device updates a part of the weights, and all
 *     devices read them in place. Where there are fewer threads than devices, each thread takes microbatches of all
 *     devices, so that no device waits for another. GPUs train as with .synchronized_optimizer.
 *   .synchronized_optimizer: an all-reduce sums the gradients. Then every device makes the same update of its own copy
 *     of the weights, so the copies stay equal. With .initial_sync = false there are copies, too, which differ.
 *   .parameter_device: all gradients are sent to that device. It makes one update, and all devices read the weights
 *     there. On GPUs each device keeps a copy.
 */
#include "strategy/mirrored.h"

kolo_weight_placement kolo_mirrored_placement(const kolo_strategy *strategy)
{
    if (strategy->parameter_device) return KOLO_WEIGHTS_CENTRAL;
    bool copies = strategy->synchronized_optimizer || strategy->initial_sync == KOLO_NONE;
    return copies ? KOLO_WEIGHTS_COPIED : KOLO_WEIGHTS_SHARED;
}

kolo_status kolo_mirrored_step(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    bool all = kolo_replica_strategy(replica)->synchronized_optimizer;
    KOLO_TRY(all ? kolo_replica_allreduce(replica) : kolo_replica_reduce(replica));
    return kolo_replica_update(replica);
}

const kolo_strategy_kind kolo_mirrored_kind = {.name = "mirrored",
                                               .replicas = kolo_strategy_devices,
                                               .step = kolo_mirrored_step,
                                               .weight_placement = kolo_mirrored_placement,
                                               .shares_compute = true,
                                               .sums_every_step = true,
                                               .updates_every_step = true,
                                               .totals_may_lag = true};

kolo_strategy kolo_strategy_for_devices(int devices)
{
    return devices > 0 ? kolo_mirrored(.devices = devices) : (kolo_strategy){0};
}
