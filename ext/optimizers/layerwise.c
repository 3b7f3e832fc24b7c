/* LARS, LAMB and NovoGrad: rules that look at a whole array of weights, whose norm comes before its update. Read
 * optimizers/optimizer.h first; strategy/update.c adds the sums of measure() up in an order that no number of threads
 * changes. */
#include "optimizers/optimizer.h"

#include <math.h>

#include "core/vector.h"

/* Σ x². */
KOLO_VECTORISED static double sum_squares(const float *x, int64_t count)
{
    double lanes[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int l = 0; l < 8; l++) lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; l < 8; l++) sum += lanes[l];
    for (; i < count; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

static void measure_both(kolo_update *u)
{
    u->sums[0] += sum_squares(u->weights, u->count);
    u->sums[1] += sum_squares(u->gradient, u->count) * u->scale * u->scale;
}

/* ---------------------------------------------------------------- LARS */

/* v ← µv + rate·(g + λw); w ← w − v. */
KOLO_VECTORISED static void lars(float *restrict w, const float *restrict g, float *restrict v, int64_t count,
                                 float scale, float rate, float momentum, float decay)
{
    for (int64_t i = 0; i < count; i++) {
        v[i] = momentum * v[i] + rate * (g[i] * scale + decay * w[i]);
        w[i] -= v[i];
    }
}

/* You, Gitman and Ginsburg 2017, algorithm 1. */
static void lars_update(const kolo_update *u)
{
    const kolo_lars_args *args = &u->optimizer->lars;
    double weight = sqrt(u->sums[0]), gradient = sqrt(u->sums[1]), rate = u->learning_rate;
    bool plain = u->vector && !args->scale_vectors;
    double decay = plain ? 0 : args->weight_decay;
    if (!plain && weight > 0 && gradient > 0)
        rate *= args->trust_coefficient * weight / (gradient + decay * weight + args->epsilon);
    lars(u->weights, u->gradient, u->slots[0], u->count, (float)u->scale, (float)rate, (float)args->momentum,
         (float)decay);
}

static const kolo_option lars_options[] = {
    KOLO_NUMBER(lars, momentum, 0.9, 0, 1),
    KOLO_NUMBER(lars, trust_coefficient, 0.001, 0, INFINITY),
    KOLO_NUMBER(lars, epsilon, 1e-8, 0, INFINITY),
    KOLO_SWITCH(lars, scale_vectors),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_lars_kind = {.name = "lars",
                                            .options = lars_options,
                                            .learning_rate = 0.1,
                                            .slots = 1,
                                            .decays = true,
                                            .measure = measure_both,
                                            .update = lars_update};

/* ---------------------------------------------------------------- LAMB */

typedef struct lamb_numbers {
    float scale, beta_1, beta_2, of_m, of_v, epsilon;
} lamb_numbers;

/* r = m̂ / (√v̂ + ε) in the gradient's place. */
KOLO_VECTORISED static void lamb_step(float *restrict g, float *restrict m, float *restrict v, int64_t count,
                                      lamb_numbers n)
{
    for (int64_t i = 0; i < count; i++) {
        float mean = g[i] * n.scale;
        m[i] += (mean - m[i]) * (1 - n.beta_1);
        v[i] += (mean * mean - v[i]) * (1 - n.beta_2);
        g[i] = n.of_m * m[i] / (__builtin_sqrtf(n.of_v * v[i]) + n.epsilon);
    }
}

KOLO_VECTORISED static void shrink(float *w, int64_t count, float rate)
{
    for (int64_t i = 0; i < count; i++) w[i] -= rate * w[i];
}

KOLO_VECTORISED static void go(float *restrict w, const float *restrict r, int64_t count, float rate)
{
    for (int64_t i = 0; i < count; i++) w[i] -= rate * r[i];
}

static void lamb_measure(kolo_update *u)
{
    const kolo_lamb_args *args = &u->optimizer->lamb;
    double t = (double)u->step;
    lamb_numbers n = {(float)u->scale,
                      (float)args->beta_1,
                      (float)args->beta_2,
                      (float)(1 / (1 - pow(args->beta_1, t))),
                      (float)(1 / (1 - pow(args->beta_2, t))),
                      (float)args->epsilon};
    bool decays = args->weight_decay > 0 && !(u->vector && args->exclude_vectors);
    if (decays) shrink(u->weights, u->count, (float)(u->learning_rate * args->weight_decay));
    lamb_step(u->gradient, u->slots[0], u->slots[1], u->count, n);
    u->sums[0] += sum_squares(u->weights, u->count);
    u->sums[1] += sum_squares(u->gradient, u->count);
}

/* You et al. 2020, algorithm 2, with φ(z) = z. */
static void lamb_update(const kolo_update *u)
{
    bool plain = u->vector && u->optimizer->lamb.exclude_vectors;
    double ratio = !plain && u->sums[0] > 0 && u->sums[1] > 0 ? sqrt(u->sums[0] / u->sums[1]) : 1;
    go(u->weights, u->gradient, u->count, (float)(ratio * u->learning_rate));
}

static const kolo_option lamb_options[] = {
    KOLO_NUMBER(lamb, beta_1, 0.9, 0, 1),
    KOLO_NUMBER(lamb, beta_2, 0.999, 0, 1),
    KOLO_NUMBER(lamb, epsilon, 1e-7, 0, INFINITY),
    KOLO_SWITCH(lamb, exclude_vectors),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_lamb_kind = {.name = "lamb",
                                            .options = lamb_options,
                                            .learning_rate = 1e-3,
                                            .slots = 2,
                                            .decays = true,
                                            .measure = lamb_measure,
                                            .update = lamb_update};

/* ---------------------------------------------------------------- NovoGrad */

/* m ← β₁m + g/(√v + ε) + λw; w ← w − ηm. */
KOLO_VECTORISED static void novograd(float *restrict w, const float *restrict g, float *restrict m, int64_t count,
                                     float beta_1, float scale, float decay, float rate)
{
    for (int64_t i = 0; i < count; i++) {
        m[i] = beta_1 * m[i] + g[i] * scale + decay * w[i];
        w[i] -= rate * m[i];
    }
}

/* Ginsburg et al. 2019, algorithm 1: the array's number is its second moment. */
static void novograd_settle(const kolo_update *u)
{
    double beta_2 = u->step == 1 ? 0 : u->optimizer->novograd.beta_2;
    *u->number = (float)(beta_2 * (double)*u->number + (1 - beta_2) * u->sums[1]);
}

static void novograd_update(const kolo_update *u)
{
    const kolo_novograd_args *args = &u->optimizer->novograd;
    double scale = u->scale / (sqrt((double)*u->number) + args->epsilon);
    novograd(u->weights, u->gradient, u->slots[0], u->count, (float)args->beta_1, (float)scale,
             (float)args->weight_decay, (float)u->learning_rate);
}

static const kolo_option novograd_options[] = {
    KOLO_NUMBER(novograd, beta_1, 0.95, 0, 1),
    KOLO_NUMBER(novograd, beta_2, 0.98, 0, 1),
    KOLO_NUMBER(novograd, epsilon, 1e-8, 0, INFINITY),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_novograd_kind = {.name = "novograd",
                                                .options = novograd_options,
                                                .learning_rate = 0.01,
                                                .slots = 1,
                                                .decays = true,
                                                .number = true,
                                                .measure = measure_both,
                                                .settle = novograd_settle,
                                                .update = novograd_update};
