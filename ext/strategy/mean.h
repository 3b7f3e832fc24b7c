/* An exchange in which all workers take the mean of their weights. */
#ifndef KOLO_STRATEGY_MEAN_H
#define KOLO_STRATEGY_MEAN_H

#include "strategy/strategy.h"

/* c ← Σx / n, x ← c, over the workers that have trained since the last exchange: the others have learnt nothing. At
 * least one has trained. */
static inline void kolo_take_mean(const kolo_strategy *strategy, const kolo_exchange *workers, int count)
{
    (void)strategy;
    int trained = 0;
    for (int w = 0; w < count; w++) trained += workers[w].batches > 0;
    for (int64_t i = 0; i < workers->count; i++) {
        float sum = 0;
        for (int w = 0; w < count; w++)
            if (workers[w].batches > 0) sum += workers[w].weights[i];
        workers->center[i] = sum / (float)trained;
        for (int w = 0; w < count; w++) workers[w].weights[i] = workers->center[i];
    }
}

#endif
