/* Central storage: synchronous data parallelism in one process, with the weights on one device.
 *
 * All gradients are sent to the .parameter_device (default: the host). It makes one update, and all devices read the
 * weights there. */
#include "strategy/strategy.h"

static const char *parameter_device(const kolo_strategy *strategy)
{
    return strategy->parameter_device ? strategy->parameter_device : "host";
}

static kolo_weight_placement weight_placement(const kolo_strategy *strategy)
{
    (void)strategy;
    return KOLO_WEIGHTS_CENTRAL;
}

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    bool all = kolo_replica_strategy(replica)->synchronized_optimizer;
    KOLO_TRY(all ? kolo_replica_allreduce(replica) : kolo_replica_reduce(replica));
    return kolo_replica_update(replica);
}

const kolo_strategy_kind kolo_central_storage_kind = {.name = "central_storage",
                                                      .replicas = kolo_strategy_devices,
                                                      .step = step,
                                                      .weight_placement = weight_placement,
                                                      .parameter_device = parameter_device,
                                                      .totals_may_lag = true};
