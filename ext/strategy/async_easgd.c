/* Asynchronous elastic averaging (Zhang, Choromanska, LeCun 2015, algorithm 1): each worker explores by itself, and a
 * spring pulls it and the centre together in its exchanges. */
#include "strategy/elastic.h"

static kolo_status exchange(kolo_replica *replica, const kolo_exchange *mine)
{
    kolo_elastic_exchange(kolo_replica_strategy(replica), mine);
    return KOLO_OK;
}

const kolo_strategy_kind kolo_async_easgd_kind = {.name = "async_easgd",
                                                  .replicas = kolo_strategy_workers,
                                                  .step = kolo_worker_step,
                                                  .exchange = exchange,
                                                  .window = 32};
