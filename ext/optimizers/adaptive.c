/* Adagrad, Adadelta and RMSProp: each weight's gradient by the root of the mean square of those before. In Keras's
 * form, the ε under the root. Read optimizers/optimizer.h first. */
#include "optimizers/optimizer.h"

#include <math.h>

#include "core/vector.h"

/* ---------------------------------------------------------------- Adagrad */

/* a ← a + g²; w ← w − ηg / √(a + ε) (Duchi et al. 2011). */
KOLO_VECTORISED static void adagrad(float *restrict w, const float *restrict gradient, float *restrict a, int64_t count,
                                    float scale, float rate, float epsilon)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * scale;
        a[i] += g * g;
        w[i] -= rate * g / __builtin_sqrtf(a[i] + epsilon);
    }
}

static void adagrad_update(const kolo_update *u)
{
    adagrad(u->weights, u->gradient, u->slots[0], u->count, (float)u->scale, (float)u->learning_rate,
            (float)u->optimizer->adagrad.epsilon);
}

static float adagrad_start(const kolo_optimizer *optimizer, int slot)
{
    (void)slot;
    return (float)optimizer->adagrad.initial_accumulator_value;
}

static const kolo_option adagrad_options[] = {
    KOLO_NUMBER(adagrad, initial_accumulator_value, 0.1, 0, INFINITY),
    KOLO_NUMBER(adagrad, epsilon, 1e-7, 0, INFINITY),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_adagrad_kind = {.name = "adagrad",
                                               .options = adagrad_options,
                                               .learning_rate = 1e-3,
                                               .slots = 1,
                                               .slot_start = adagrad_start,
                                               .update = adagrad_update};

/* ---------------------------------------------------------------- Adadelta */

/* a ← ρa + (1−ρ)g²; d = −g √(b + ε) / √(a + ε); b ← ρb + (1−ρ)d²; w ← w + ηd (Zeiler 2012, algorithm 1). */
KOLO_VECTORISED static void adadelta(float *restrict w, const float *restrict gradient, float *restrict a,
                                     float *restrict b, int64_t count, float scale, float rate, float rho,
                                     float epsilon)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * scale;
        a[i] = rho * a[i] + (1 - rho) * g * g;
        float d = -g * __builtin_sqrtf(b[i] + epsilon) / __builtin_sqrtf(a[i] + epsilon);
        b[i] = rho * b[i] + (1 - rho) * d * d;
        w[i] += rate * d;
    }
}

static void adadelta_update(const kolo_update *u)
{
    const kolo_adadelta_args *args = &u->optimizer->adadelta;
    adadelta(u->weights, u->gradient, u->slots[0], u->slots[1], u->count, (float)u->scale, (float)u->learning_rate,
             (float)args->rho, (float)args->epsilon);
}

static const kolo_option adadelta_options[] = {
    KOLO_NUMBER(adadelta, rho, 0.95, 0, 1),
    KOLO_NUMBER(adadelta, epsilon, 1e-7, 0, INFINITY),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_adadelta_kind = {
    .name = "adadelta", .options = adadelta_options, .learning_rate = 1e-3, .slots = 2, .update = adadelta_update};

/* ---------------------------------------------------------------- RMSProp */

typedef struct rms_numbers {
    float scale, rate, rho, momentum, epsilon;
} rms_numbers;

/* v ← ρv + (1−ρ)g²; d = ηg / √(v + ε), or with the mean m: √(v − m² + ε); w ← w − d, or with momentum u ← µu + d;
 * w ← w − u (Hinton et al. 2012, lecture 6e; centered: Graves 2013, equations 38 to 45). m and u: NULL where not
 * wanted. */
static inline __attribute__((always_inline)) void rms(float *restrict w, const float *restrict gradient,
                                                      float *restrict v, float *restrict m, float *restrict u,
                                                      int64_t count, rms_numbers n)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * n.scale, square = 0;
        v[i] = n.rho * v[i] + (1 - n.rho) * g * g;
        if (m) m[i] = n.rho * m[i] + (1 - n.rho) * g;
        if (m) square = m[i] * m[i];
        float d = n.rate * g / __builtin_sqrtf(v[i] - square + n.epsilon);
        if (u) d = u[i] = n.momentum * u[i] + d;
        w[i] -= d;
    }
}

KOLO_VECTORISED static void rms_plain(float *w, const float *g, float *v, int64_t count, rms_numbers n)
{
    rms(w, g, v, NULL, NULL, count, n);
}
KOLO_VECTORISED static void rms_rolling(float *w, const float *g, float *v, float *u, int64_t count, rms_numbers n)
{
    rms(w, g, v, NULL, u, count, n);
}
KOLO_VECTORISED static void rms_centered(float *w, const float *g, float *v, float *m, int64_t count, rms_numbers n)
{
    rms(w, g, v, m, NULL, count, n);
}
KOLO_VECTORISED static void rms_both(float *w, const float *g, float *v, float *m, float *u, int64_t count,
                                     rms_numbers n)
{
    rms(w, g, v, m, u, count, n);
}

static int rmsprop_slots(const kolo_optimizer *optimizer)
{
    return 1 + optimizer->rmsprop.centered + (optimizer->rmsprop.momentum > 0);
}

static void rmsprop_update(const kolo_update *u)
{
    const kolo_rmsprop_args *args = &u->optimizer->rmsprop;
    rms_numbers n = {(float)u->scale, (float)u->learning_rate, (float)args->rho, (float)args->momentum,
                     (float)args->epsilon};
    float *w = u->weights, *g = u->gradient, *v = u->slots[0], *second = u->slots[1];
    if (args->centered && args->momentum > 0) rms_both(w, g, v, second, u->slots[2], u->count, n);
    else if (args->centered) rms_centered(w, g, v, second, u->count, n);
    else if (args->momentum > 0) rms_rolling(w, g, v, second, u->count, n);
    else rms_plain(w, g, v, u->count, n);
}

static const kolo_option rmsprop_options[] = {
    KOLO_NUMBER(rmsprop, rho, 0.9, 0, 1),
    KOLO_NUMBER(rmsprop, momentum, 0, 0, 1),
    KOLO_NUMBER(rmsprop, epsilon, 1e-7, 0, INFINITY),
    KOLO_SWITCH(rmsprop, centered),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_rmsprop_kind = {.name = "rmsprop",
                                               .options = rmsprop_options,
                                               .learning_rate = 1e-3,
                                               .slot_count = rmsprop_slots,
                                               .update = rmsprop_update};
