/* Accumulated gradient normalization (Hermans 2017): DOWNPOUR with the mean of the window's steps instead of their sum.
 * The centre then makes steps as long as one batch's, for any window. */
#include "strategy/pull.h"

static void exchange(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    (void)strategy;
    kolo_commit_and_pull(mine, 1 / (float)mine->batches);
}

const kolo_strategy_kind kolo_adag_kind = {.name = "adag",
                                           .replicas = kolo_strategy_workers,
                                           .step = kolo_worker_step,
                                           .updates_every_step = true,
                                           .exchange = exchange,
                                           .window = 12};
