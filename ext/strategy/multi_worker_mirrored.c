/* Multi-worker mirrored: mirrored.c over the devices of all ranks, which TensorFlow calls workers. The ranks train
 * together without kolo_distributed(), and the batch is that of all of them. */
#include "strategy/mirrored.h"

const kolo_strategy_kind kolo_multi_worker_mirrored_kind = {.name = "multi_worker_mirrored",
                                                            .replicas = kolo_strategy_devices,
                                                            .step = kolo_mirrored_step,
                                                            .weight_placement = kolo_mirrored_placement,
                                                            .joins_ranks = true,
                                                            .shares_compute = true,
                                                            .sums_every_step = true,
                                                            .updates_every_step = true,
                                                            .totals_may_lag = true};
