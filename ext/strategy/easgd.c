/* Elastic averaging, synchronous (Zhang, Choromanska, LeCun 2015, equations 5 and 6):
 *
 *   xᵢ ← xᵢ − η·gᵢ − α(xᵢ − c),  c ← c + α·Σᵢ(xᵢ − c)
 *
 * All right-hand sides have the old values, so the exchange needs the weights from before the last step: .start. */
#include <string.h>

#include "strategy/elastic.h"

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    size_t bytes = (size_t)kolo_replica_count(replica) * sizeof(float);
    memcpy(kolo_worker_memory(replica).start, kolo_replica_weights(replica), bytes);
    return kolo_worker_step(replica, batch);
}

/* The paper's α without options: the centre moves by β = n · α = 0.9 towards the mean of n workers. */
static double alpha_of(const kolo_strategy *strategy, int workers)
{
    bool given = strategy->rho != 0 || strategy->learning_rate != 0;
    return given ? kolo_elastic_alpha(strategy) : 0.9 / workers;
}

static kolo_status replicas(const kolo_strategy *strategy, int *count)
{
    KOLO_TRY(kolo_strategy_workers(strategy, count));
    double beta = alpha_of(strategy, *count) * *count;
    if (beta >= 2)
        kolo_warn("strategy easgd: the centre moves by %d · α = %g of its distance from the workers' mean: at 2 and "
                  "above it swings ever further, so lower .learning_rate or .rho",
                  *count, beta);
    return KOLO_OK;
}

/* A worker without a batch has made no step, so its old values are its weights. */
static void exchange_all(const kolo_strategy *strategy, const kolo_exchange *workers, int count)
{
    float alpha = (float)alpha_of(strategy, count);
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

const kolo_strategy_kind kolo_easgd_kind = {.name = "easgd",
                                            .replicas = replicas,
                                            .step = step,
                                            .updates_every_step = true,
                                            .exchange_all = exchange_all,
                                            .window = 1,
                                            .writes_start = true,
                                            .reads_rho = true};
