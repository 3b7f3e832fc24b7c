/* Asynchronous elastic averaging with Nesterov's momentum (Zhang, Choromanska, LeCun 2015, algorithm 2).
 *
 * A step is v ← μv + Δ, x ← x + v, where Δ is what the optimizer adds at x + μv: -η · g for plain descent. The new x
 * is the weights after the optimizer's step, and v is the difference from the old x. .memory holds v, .start the old x.
 */
#include <string.h>

#include "strategy/elastic.h"

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    const kolo_exchange *mine = kolo_worker_exchange(replica);
    float *x = kolo_replica_weights(replica), momentum = (float)kolo_momentum(kolo_replica_strategy(replica));
    memcpy(mine->start, x, (size_t)mine->count * sizeof *x);
    for (int64_t i = 0; i < mine->count; i++) x[i] += momentum * mine->memory[i];
    KOLO_TRY(kolo_replica_pack(replica));
    KOLO_TRY(kolo_worker_step(replica, batch));
    x = kolo_replica_weights(replica);
    for (int64_t i = 0; i < mine->count; i++) mine->memory[i] = x[i] - mine->start[i];
    return KOLO_OK;
}

static kolo_status exchange(kolo_replica *replica, const kolo_exchange *mine)
{
    kolo_elastic_exchange(kolo_replica_strategy(replica), mine);
    return KOLO_OK;
}

const kolo_strategy_kind kolo_async_eamsgd_kind = {.name = "async_eamsgd",
                                                   .replicas = kolo_strategy_workers,
                                                   .step = step,
                                                   .exchange = exchange,
                                                   .window = 32,
                                                   .has_memory = true};
