/* Asynchronous elastic averaging with Nesterov's momentum (Zhang, Choromanska, LeCun 2015, algorithm 2).
 *
 * A step is v ← μv + Δ, x ← x + v, where Δ is the optimizer's step at x + μv: -η · g for plain descent. The new x
 * is the weights after the optimizer's step, and v is the difference from the old x. .memory holds v, .start the old x.
 */
#include <string.h>

#include "strategy/elastic.h"

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    kolo_worker_arrays mine = kolo_worker_memory(replica);
    int64_t count = kolo_replica_count(replica);
    float *x = kolo_replica_weights(replica), momentum = (float)kolo_momentum(kolo_replica_strategy(replica));
    memcpy(mine.start, x, (size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] += momentum * mine.memory[i];
    KOLO_TRY(kolo_replica_pack(replica));
    KOLO_TRY(kolo_worker_step(replica, batch));
    x = kolo_replica_weights(replica);
    for (int64_t i = 0; i < count; i++) mine.memory[i] = x[i] - mine.start[i];
    return KOLO_OK;
}

const kolo_strategy_kind kolo_async_eamsgd_kind = {.name = "async_eamsgd",
                                                   .replicas = kolo_strategy_workers,
                                                   .step = step,
                                                   .updates_every_step = true,
                                                   .exchange = kolo_elastic_exchange,
                                                   .window = 32,
                                                   .has_memory = true,
                                                   .reads_rho = true,
                                                   .reads_momentum = true};
