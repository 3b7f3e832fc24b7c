/* Mirrored: synchronous data parallelism in one process.
 *
 * Every device holds a copy of the weights and of the optimizer's state. A step deals the batch out, sums the gradients
 * of all copies, and lets every copy make the same update; so the copies stay equal without ever being compared.
 */
#include "core/runtime.h"
#include "strategy/strategy.h"

static kolo_status replicas(const kolo_strategy *strategy, int *count)
{
    int visible = kolo_visible_devices();
    if (strategy->devices < 0 || strategy->devices > visible)
        return kolo_fail(KOLO_INVALID,
                         "strategy mirrored: wanted 1 to %d devices (KOLO_CPU_DEVICES sets how many there "
                         "are), got %d",
                         visible, strategy->devices);
    *count = strategy->devices ? strategy->devices : visible;
    return KOLO_OK;
}

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_allreduce(replica));
    return kolo_replica_update(replica);
}

const kolo_strategy_kind kolo_mirrored_kind = {.name = "mirrored", .replicas = replicas, .step = step};
