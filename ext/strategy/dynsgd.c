/* DynSGD (Jiang et al. 2017): DOWNPOUR in which the centre takes a smaller part of a worker's change the staler the
 * worker's weights are. */
#include "strategy/pull.h"

static void exchange(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    (void)strategy;
    kolo_commit_and_pull(mine, 1 / (float)(mine->staleness + 1));
}

const kolo_strategy_kind kolo_dynsgd_kind = {.name = "dynsgd",
                                             .replicas = kolo_strategy_workers,
                                             .step = kolo_worker_step,
                                             .updates_every_step = true,
                                             .exchange = exchange,
                                             .window = 5};
