/* DOWNPOUR (Dean et al. 2012): each worker adds all that it has learnt since its last exchange to the centre, whatever
 * the others have added meanwhile. Many workers therefore make steps that are too long. */
#include "strategy/pull.h"

static kolo_status exchange(kolo_replica *replica, const kolo_exchange *mine)
{
    (void)replica;
    kolo_commit_and_pull(mine, 1);
    return KOLO_OK;
}

const kolo_strategy_kind kolo_downpour_kind = {
    .name = "downpour", .replicas = kolo_strategy_workers, .step = kolo_worker_step, .exchange = exchange, .window = 5};
