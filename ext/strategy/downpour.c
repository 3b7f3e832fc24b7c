/* DOWNPOUR (Dean et al. 2012): each worker adds its whole change since its last exchange to the centre, even if
 * other workers have added theirs meanwhile. Many workers therefore make steps that are too long. */
#include "strategy/pull.h"

static void exchange(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    (void)strategy;
    kolo_commit_and_pull(mine, 1);
}

const kolo_strategy_kind kolo_downpour_kind = {.name = "downpour",
                                               .replicas = kolo_strategy_workers,
                                               .step = kolo_worker_step,
                                               .updates_every_step = true,
                                               .exchange = exchange,
                                               .window = 5};
