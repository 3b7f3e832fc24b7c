/* Accumulated gradient normalization (Hermans 2017): DOWNPOUR with the mean of the window's steps instead of their sum.
 * The centre then makes steps as long as one batch's, for any window. */
#include "strategy/pull.h"

static kolo_status exchange(kolo_replica *replica, const kolo_exchange *mine)
{
    (void)replica;
    kolo_commit_and_pull(mine, 1 / (float)mine->batches);
    return KOLO_OK;
}

const kolo_strategy_kind kolo_adag_kind = {
    .name = "adag", .replicas = kolo_strategy_workers, .step = kolo_worker_step, .exchange = exchange, .window = 12};
