/* Gradient descent with momentum. Read optimizers/optimizer.h first.
 *
 * The loops of this folder run over any part of the arrays, so that threads can share them; every element's result
 * depends on that element alone. */
#include "optimizers/optimizer.h"

#include <math.h>

#include "core/vector.h"

KOLO_VECTORISED static void descend(float *restrict w, const float *restrict g, int64_t count, float rate)
{
    for (int64_t i = 0; i < count; i++) w[i] -= rate * g[i];
}

/* v ← µv − ηg; w ← w + v, or with Nesterov w ← w + µv − ηg (Sutskever et al. 2013). */
KOLO_VECTORISED static void roll(float *restrict w, const float *restrict g, float *restrict v, int64_t count,
                                 float rate, float momentum, float look_ahead)
{
    for (int64_t i = 0; i < count; i++) {
        v[i] = momentum * v[i] - rate * g[i];
        w[i] += look_ahead != 0 ? look_ahead * v[i] - rate * g[i] : v[i];
    }
}

static int slot_count(const kolo_optimizer *optimizer)
{
    return optimizer->sgd.momentum > 0;
}

static void update(const kolo_update *u)
{
    float momentum = (float)u->optimizer->sgd.momentum, rate = (float)(u->learning_rate * u->scale);
    if (slot_count(u->optimizer) == 0) descend(u->weights, u->gradient, u->count, rate);
    else
        roll(u->weights, u->gradient, u->slots[0], u->count, rate, momentum, u->optimizer->sgd.nesterov ? momentum : 0);
}

static const kolo_option options[] = {
    KOLO_NUMBER(sgd, momentum, 0, 0, 1),
    KOLO_SWITCH(sgd, nesterov),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_sgd_kind = {
    .name = "sgd", .options = options, .learning_rate = 0.01, .slot_count = slot_count, .update = update};
