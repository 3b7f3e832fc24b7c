/* Elastic averaging, synchronous (Zhang, Choromanska, LeCun 2015, equations 5 and 6):
 *
 *   xᵢ ← xᵢ − η·gᵢ − α(xᵢ − c),  c ← c + α·Σᵢ(xᵢ − c)
 *
 * All right-hand sides have the old values, so the exchange needs the weights from before the last step: .start. */
#include <string.h>

#include "strategy/elastic.h"

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    const kolo_exchange *mine = kolo_worker_exchange(replica);
    memcpy(mine->start, kolo_replica_weights(replica), (size_t)mine->count * sizeof(float));
    return kolo_worker_step(replica, batch);
}

/* A worker without a batch has made no step, so its old values are its weights. */
static void exchange_all(const kolo_strategy *strategy, const kolo_exchange *workers, int count)
{
    float alpha = (float)kolo_elastic_alpha(strategy);
    for (int64_t i = 0; i < workers->count; i++) {
        float center = workers->center[i], sum = 0;
        for (int w = 0; w < count; w++) {
            float old = workers[w].batches > 0 ? workers[w].start[i] : workers[w].weights[i];
            workers[w].weights[i] -= alpha * (old - center);
            sum += old - center;
        }
        workers->center[i] = center + alpha * sum;
    }
}

const kolo_strategy_kind kolo_easgd_kind = {
    .name = "easgd", .replicas = kolo_strategy_workers, .step = step, .exchange_all = exchange_all, .window = 1};
