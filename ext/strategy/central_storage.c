/* Central storage: synchronous data parallelism in one process, with the weights on one device.
 *
 * All gradients are sent to the .parameter_device (default: the host). It makes one update, and all devices read the
 * weights there. */
#include "strategy/mirrored.h"

static const char *parameter_device(const kolo_strategy *strategy)
{
    return strategy->parameter_device ? strategy->parameter_device : "host";
}

static kolo_weight_placement weight_placement(const kolo_strategy *strategy)
{
    (void)strategy;
    return KOLO_WEIGHTS_CENTRAL;
}

const kolo_strategy_kind kolo_central_storage_kind = {.name = "central_storage",
                                                      .replicas = kolo_strategy_devices,
                                                      .step = kolo_mirrored_step,
                                                      .weight_placement = weight_placement,
                                                      .parameter_device = parameter_device,
                                                      .sums_every_step = true,
                                                      .updates_every_step = true,
                                                      .totals_may_lag = true};
