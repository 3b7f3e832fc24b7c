/* Model averaging: workers train by themselves for an epoch, and then all continue with the mean of their weights. */
#include "strategy/mean.h"

const kolo_strategy_kind kolo_averaging_kind = {.name = "averaging",
                                                .replicas = kolo_strategy_workers,
                                                .step = kolo_worker_step,
                                                .updates_every_step = true,
                                                .exchange_all = kolo_take_mean,
                                                .window = 0};
