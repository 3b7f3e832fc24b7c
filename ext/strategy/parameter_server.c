/* Parameter server: workers send gradients, and the server's optimizer updates the weights with each of them as it
 * comes. The worker that has sent its gradient makes the update itself, in its exchange. */
#include "strategy/pull.h"

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    float *gradient;
    KOLO_TRY(kolo_replica_compute(replica, batch));
    return kolo_replica_gradient(replica, &gradient);
}

static kolo_status exchange(kolo_replica *replica, const kolo_exchange *mine)
{
    KOLO_TRY(kolo_worker_update_center(replica));
    kolo_pull(mine);
    return KOLO_OK;
}

const kolo_strategy_kind kolo_parameter_server_kind = {.name = "parameter_server",
                                                       .replicas = kolo_strategy_workers,
                                                       .step = step,
                                                       .exchange = exchange,
                                                       .window = 1,
                                                       .updates_center = true};
