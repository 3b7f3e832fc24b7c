/* An ensemble: workers train models of their own, and never exchange. The centre is the first one that is left. */
#include <string.h>

#include "strategy/strategy.h"

static void keep_first(const kolo_strategy *strategy, const kolo_exchange *workers, int count)
{
    (void)strategy;
    (void)count;
    memcpy(workers->center, workers->weights, (size_t)workers->count * sizeof(float));
}

const kolo_strategy_kind kolo_ensemble_kind = {.name = "ensemble",
                                               .replicas = kolo_strategy_workers,
                                               .step = kolo_worker_step,
                                               .updates_every_step = true,
                                               .exchange_all = keep_first,
                                               .ensemble = true,
                                               .window = 0};
