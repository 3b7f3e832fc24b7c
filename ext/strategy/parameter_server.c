/* Parameter server: workers send gradients, and the server's optimizer updates the weights with each of them as it
 * comes. A worker waits until its gradient has been used, and continues with the new weights. */
#include "strategy/pull.h"

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    float *gradient;
    KOLO_TRY(kolo_replica_compute(replica, batch));
    return kolo_replica_gradient(replica, &gradient);
}

static void exchange(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    (void)strategy;
    kolo_pull(mine);
}

const kolo_strategy_kind kolo_parameter_server_kind = {.name = "parameter_server",
                                                       .replicas = kolo_strategy_workers,
                                                       .step = step,
                                                       .exchange = exchange,
                                                       .window = 1,
                                                       .updates_center = true};
