/* LARS, LAMB and NovoGrad: rules that need norms over a whole array of weights before its update. Read
 * optimizers/optimizer.h first. backend/host_update.c adds up the sums of measure() in an order that does not depend on
 * the number of threads. */
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

static kolo_rule_kind lars(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    const kolo_lars_args *args = &optimizer->lars;
    (void)step;
    rule[KOLO_RULE_BETA_1] = args->momentum;
    rule[KOLO_RULE_EPSILON] = args->epsilon;
    rule[KOLO_RULE_DECAY] = args->weight_decay;
    rule[KOLO_RULE_TRUST] = args->trust_coefficient;
    rule[KOLO_RULE_PLAIN_VECTORS] = !args->scale_vectors;
    return KOLO_RULE_LARS;
}

/* You, Gitman and Ginsburg 2017, algorithm 1. */
static void lars_update(const kolo_update *u)
{
    double rule[KOLO_RULE_NUMBERS];
    kolo_rule_kind kind = kolo_rule_numbers(u->optimizer, u->learning_rate, u->step, rule);
    kolo_rule_run(kind, kolo_rule_lars_array(rule, u->vector, u->sums), u, u->scale);
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
                                            .decays = true,
                                            .rule = lars,
                                            .measure = measure_both,
                                            .update = lars_update};

/* ---------------------------------------------------------------- LAMB */

static kolo_rule_kind lamb(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    const kolo_lamb_args *args = &optimizer->lamb;
    double t = (double)step;
    rule[KOLO_RULE_BETA_1] = args->beta_1;
    rule[KOLO_RULE_BETA_2] = args->beta_2;
    rule[KOLO_RULE_EPSILON] = args->epsilon;
    rule[KOLO_RULE_OF_M] = 1 / (1 - pow(args->beta_1, t));
    rule[KOLO_RULE_OF_V] = 1 / (1 - pow(args->beta_2, t));
    rule[KOLO_RULE_DECAY] = args->weight_decay;
    rule[KOLO_RULE_PLAIN_VECTORS] = args->exclude_vectors;
    return KOLO_RULE_LAMB;
}

/* Overwrites the gradient with r. */
KOLO_VECTORISED static void lamb_step(float *restrict g, float *restrict m, float *restrict v, int64_t count,
                                      float scale, kolo_rule n)
{
    for (int64_t i = 0; i < count; i++) g[i] = kolo_rule_lamb_step(g[i] * scale, &m[i], &v[i], n);
}

static void lamb_measure(kolo_update *u)
{
    double rule[KOLO_RULE_NUMBERS];
    kolo_rule_numbers(u->optimizer, u->learning_rate, u->step, rule);
    float decay = kolo_rule_lamb_decay(rule, u->vector);
    if (decay > 0) kolo_rule_shrink(u->weights, u->count, decay);
    lamb_step(u->gradient, u->slots[0], u->slots[1], u->count, (float)u->scale, kolo_rule_floats(rule));
    u->sums[0] += sum_squares(u->weights, u->count);
    u->sums[1] += sum_squares(u->gradient, u->count);
}

/* You et al. 2020, algorithm 2, with φ(z) = z. */
static void lamb_update(const kolo_update *u)
{
    double rule[KOLO_RULE_NUMBERS];
    kolo_rule_kind kind = kolo_rule_numbers(u->optimizer, u->learning_rate, u->step, rule);
    kolo_rule_run(kind, kolo_rule_lamb_array(rule, u->vector, u->sums), u, 1);
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
                                            .decays = true,
                                            .rule = lamb,
                                            .measure = lamb_measure,
                                            .update = lamb_update};

/* ---------------------------------------------------------------- NovoGrad */

static kolo_rule_kind novograd(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    const kolo_novograd_args *args = &optimizer->novograd;
    rule[KOLO_RULE_BETA_1] = args->beta_1;
    rule[KOLO_RULE_BETA_2] = step == 1 ? 0 : args->beta_2;
    rule[KOLO_RULE_EPSILON] = args->epsilon;
    rule[KOLO_RULE_DECAY] = args->weight_decay;
    return KOLO_RULE_NOVOGRAD;
}

/* Ginsburg et al. 2019, algorithm 1: the array's number is its second moment. */
static void novograd_settle(const kolo_update *u)
{
    double rule[KOLO_RULE_NUMBERS];
    kolo_rule_numbers(u->optimizer, u->learning_rate, u->step, rule);
    *u->number = kolo_rule_novograd_number(rule, *u->number, u->sums[1]);
}

static void novograd_update(const kolo_update *u)
{
    double rule[KOLO_RULE_NUMBERS];
    kolo_rule_kind kind = kolo_rule_numbers(u->optimizer, u->learning_rate, u->step, rule);
    kolo_rule_run(kind, kolo_rule_novograd_array(rule, *u->number, u->scale), u, 1);
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
                                                .decays = true,
                                                .number = true,
                                                .rule = novograd,
                                                .measure = measure_both,
                                                .settle = novograd_settle,
                                                .update = novograd_update};
