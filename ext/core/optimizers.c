/* SGD and Adam: options, and the rule for each weight. Read core/optimizer.h first.
 *
 * The loops run over any part of the arrays, so that threads can share them; every element's result depends on that
 * element alone.
 */
#include "core/optimizer.h"

#include <math.h>

#include "core/vector.h"

static double or_default(double value, double fallback)
{
    return value == 0 ? fallback : value == KOLO_NONE ? 0 : value;
}

static kolo_status check_rate(const char *optimizer, double rate)
{
    if (isfinite(rate) && rate >= 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted a .learning_rate of at least 0, got %g", optimizer, rate);
}

/* Decay rates of running means: from 0 to below 1. */
static kolo_status check_decay(const char *optimizer, const char *option, double decay)
{
    if (decay >= 0 && decay < 1) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted a %s from 0 to below 1, got %g", optimizer, option, decay);
}

/* ---------------------------------------------------------------- SGD */

static double sgd_learning_rate(const kolo_optimizer *optimizer)
{
    return or_default(optimizer->sgd.learning_rate, 0.01);
}

static kolo_status sgd_check(const kolo_optimizer *optimizer)
{
    KOLO_TRY(check_rate("sgd", sgd_learning_rate(optimizer)));
    return check_decay("sgd", ".momentum", or_default(optimizer->sgd.momentum, 0));
}

/* v ← µv − ηg; w ← w + v, or with Nesterov w ← w + µv − ηg (Sutskever et al. 2013). */
KOLO_VECTORISED static void sgd_loop(float *restrict w, const float *restrict g, float *restrict v, int64_t count,
                                     float rate, float momentum, float look_ahead)
{
    for (int64_t i = 0; i < count; i++) {
        v[i] = momentum * v[i] - rate * g[i];
        w[i] += look_ahead != 0 ? look_ahead * v[i] - rate * g[i] : v[i];
    }
}

static void sgd_update(const kolo_update *u)
{
    double momentum = or_default(u->optimizer->sgd.momentum, 0);
    float look_ahead = u->optimizer->sgd.nesterov ? (float)momentum : 0;
    sgd_loop(u->weights, u->gradient, u->slots[0], u->count, (float)(u->learning_rate * u->scale), (float)momentum,
             look_ahead);
}

const kolo_optimizer_kind kolo_sgd_kind = {
    .name = "sgd", .slots = 1, .learning_rate = sgd_learning_rate, .check = sgd_check, .update = sgd_update};

/* ---------------------------------------------------------------- Adam */

static double adam_learning_rate(const kolo_optimizer *optimizer)
{
    return or_default(optimizer->adam.learning_rate, 1e-3);
}

static double adam_epsilon(const kolo_optimizer *optimizer)
{
    return or_default(optimizer->adam.epsilon, 1e-7);
}

static kolo_status adam_check(const kolo_optimizer *optimizer)
{
    KOLO_TRY(check_rate("adam", adam_learning_rate(optimizer)));
    KOLO_TRY(check_decay("adam", ".beta_1", or_default(optimizer->adam.beta_1, 0.9)));
    KOLO_TRY(check_decay("adam", ".beta_2", or_default(optimizer->adam.beta_2, 0.999)));
    double epsilon = adam_epsilon(optimizer);
    if (isfinite(epsilon) && epsilon >= 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "adam: wanted an .epsilon of at least 0, got %g", epsilon);
}

typedef struct adam_numbers {
    float scale, beta_1, beta_2, rate, epsilon;
} adam_numbers;

KOLO_VECTORISED static void adam_loop(float *restrict w, const float *restrict gradient, float *restrict m,
                                      float *restrict v, int64_t count, adam_numbers n)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * n.scale;
        m[i] += (g - m[i]) * (1 - n.beta_1);
        v[i] += (g * g - v[i]) * (1 - n.beta_2);
        w[i] -= n.rate * m[i] / (__builtin_sqrtf(v[i]) + n.epsilon);
    }
}

/* Kingma and Ba 2015, algorithm 1 in the order of its section 2's remark, as Keras has it: both corrections go into
 * the rate, η·√(1−β₂ᵗ)/(1−β₁ᵗ). */
static void adam_update(const kolo_update *u)
{
    double beta_1 = or_default(u->optimizer->adam.beta_1, 0.9), beta_2 = or_default(u->optimizer->adam.beta_2, 0.999);
    double t = (double)u->step;
    double rate = u->learning_rate * sqrt(1 - pow(beta_2, t)) / (1 - pow(beta_1, t));
    adam_numbers numbers = {(float)u->scale, (float)beta_1, (float)beta_2, (float)rate,
                            (float)adam_epsilon(u->optimizer)};
    adam_loop(u->weights, u->gradient, u->slots[0], u->slots[1], u->count, numbers);
}

const kolo_optimizer_kind kolo_adam_kind = {
    .name = "adam", .slots = 2, .learning_rate = adam_learning_rate, .check = adam_check, .update = adam_update};
