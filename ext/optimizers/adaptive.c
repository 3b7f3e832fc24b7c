/* Adagrad, Adadelta and RMSProp: they divide each weight's gradient by the root of a sum (Adagrad) or running mean of
 * its squared gradients. As in Keras, ε is under the root. Read optimizers/optimizer.h first. */
#include "optimizers/optimizer.h"

#include <math.h>

/* ---------------------------------------------------------------- Adagrad */

static kolo_rule_kind adagrad(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    (void)step;
    rule[KOLO_RULE_EPSILON] = optimizer->adagrad.epsilon;
    return KOLO_RULE_ADAGRAD;
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
                                               .slot_start = adagrad_start,
                                               .rule = adagrad,
                                               .update = kolo_rule_update};

/* ---------------------------------------------------------------- Adadelta */

static kolo_rule_kind adadelta(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    (void)step;
    rule[KOLO_RULE_BETA_1] = optimizer->adadelta.rho;
    rule[KOLO_RULE_EPSILON] = optimizer->adadelta.epsilon;
    return KOLO_RULE_ADADELTA;
}

static const kolo_option adadelta_options[] = {
    KOLO_NUMBER(adadelta, rho, 0.95, 0, 1),
    KOLO_NUMBER(adadelta, epsilon, 1e-7, 0, INFINITY),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_adadelta_kind = {.name = "adadelta",
                                                .options = adadelta_options,
                                                .learning_rate = 1e-3,
                                                .rule = adadelta,
                                                .update = kolo_rule_update};

/* ---------------------------------------------------------------- RMSProp */

static kolo_rule_kind rmsprop(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    const kolo_rmsprop_args *args = &optimizer->rmsprop;
    (void)step;
    rule[KOLO_RULE_BETA_1] = args->rho;
    rule[KOLO_RULE_BETA_2] = args->momentum;
    rule[KOLO_RULE_EPSILON] = args->epsilon;
    if (args->momentum > 0) return args->centered ? KOLO_RULE_RMSPROP_BOTH : KOLO_RULE_RMSPROP_ROLLING;
    return args->centered ? KOLO_RULE_RMSPROP_CENTERED : KOLO_RULE_RMSPROP;
}

static const kolo_option rmsprop_options[] = {
    KOLO_NUMBER(rmsprop, rho, 0.9, 0, 1),
    KOLO_NUMBER(rmsprop, momentum, 0, 0, 1),
    KOLO_NUMBER(rmsprop, epsilon, 1e-7, 0, INFINITY),
    KOLO_SWITCH(rmsprop, centered),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_rmsprop_kind = {
    .name = "rmsprop", .options = rmsprop_options, .learning_rate = 1e-3, .rule = rmsprop, .update = kolo_rule_update};
