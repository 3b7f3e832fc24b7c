/* One device: the default strategy, and the baseline that other strategies are compared with. */
#include "strategy/strategy.h"

static kolo_status replicas(const kolo_strategy *strategy, int *count)
{
    if (strategy->devices > 1)
        return kolo_fail(KOLO_INVALID, "strategy one_device: wanted .devices = 1, got %d", strategy->devices);
    *count = 1;
    return KOLO_OK;
}

/* With kolo_distributed() the group contains the other ranks. Otherwise it has one member, and the all-reduce does
 * nothing. */
static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_allreduce(replica));
    return kolo_replica_update(replica);
}

const kolo_strategy_kind kolo_one_device_kind = {.name = "one_device",
                                                 .replicas = replicas,
                                                 .step = step,
                                                 .one_replica = true,
                                                 .sums_every_step = true,
                                                 .updates_every_step = true,
                                                 .totals_may_lag = true};

const kolo_strategy_kind *kolo_strategy_kind_of(const kolo_strategy *strategy)
{
    return strategy->kind ? strategy->kind : &kolo_one_device_kind;
}
