/* Asynchronous elastic averaging (Zhang, Choromanska, LeCun 2015, algorithm 1): each worker explores by itself, and a
 * spring pulls it and the centre together in its exchanges. */
#include "strategy/elastic.h"

const kolo_strategy_kind kolo_async_easgd_kind = {.name = "async_easgd",
                                                  .replicas = kolo_strategy_workers,
                                                  .step = kolo_worker_step,
                                                  .updates_every_step = true,
                                                  .exchange = kolo_elastic_exchange,
                                                  .window = 32,
                                                  .reads_rho = true};
