/* Local SGD (Stich 2019): workers take the mean of their weights every few batches. */
#include "strategy/mean.h"

const kolo_strategy_kind kolo_local_sgd_kind = {.name = "local_sgd",
                                                .replicas = kolo_strategy_workers,
                                                .step = kolo_worker_step,
                                                .updates_every_step = true,
                                                .exchange_all = kolo_take_mean,
                                                .window = 8};
