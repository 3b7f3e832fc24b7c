/* Adam and its variants AdamW, Adamax and Nadam. Read optimizers/optimizer.h first. */
#include "optimizers/optimizer.h"

#include <math.h>

/* ---------------------------------------------------------------- Adam, AdamW */

/* Kingma and Ba 2015, algorithm 1 with the order of computation that section 2 suggests, as in Keras: both bias
 * corrections are part of the rate, η·√(1−β₂ᵗ)/(1−β₁ᵗ). */
static kolo_rule_kind adam(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    const kolo_adam_args *args = &optimizer->adam;
    double t = (double)step;
    rule[KOLO_RULE_RATE] = rule[KOLO_RULE_LEARNING_RATE] * sqrt(1 - pow(args->beta_2, t)) / (1 - pow(args->beta_1, t));
    rule[KOLO_RULE_BETA_1] = args->beta_1;
    rule[KOLO_RULE_BETA_2] = args->beta_2;
    rule[KOLO_RULE_EPSILON] = args->epsilon;
    return args->amsgrad ? KOLO_RULE_AMSGRAD : KOLO_RULE_ADAM;
}

static const kolo_option adam_options[] = {
    KOLO_NUMBER(adam, beta_1, 0.9, 0, 1),
    KOLO_NUMBER(adam, beta_2, 0.999, 0, 1),
    KOLO_NUMBER(adam, epsilon, 1e-7, 0, INFINITY),
    KOLO_SWITCH(adam, amsgrad),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_adam_kind = {
    .name = "adam", .options = adam_options, .learning_rate = 1e-3, .rule = adam, .update = kolo_rule_update};
const kolo_optimizer_kind kolo_adamw_kind = {.name = "adamw",
                                             .options = adam_options,
                                             .learning_rate = 1e-3,
                                             .weight_decay = 0.004,
                                             .rule = adam,
                                             .update = kolo_rule_update};

/* ---------------------------------------------------------------- Adamax */

static kolo_rule_kind adamax(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    const kolo_adamax_args *args = &optimizer->adamax;
    rule[KOLO_RULE_RATE] = rule[KOLO_RULE_LEARNING_RATE] / (1 - pow(args->beta_1, (double)step));
    rule[KOLO_RULE_BETA_1] = args->beta_1;
    rule[KOLO_RULE_BETA_2] = args->beta_2;
    rule[KOLO_RULE_EPSILON] = args->epsilon;
    return KOLO_RULE_ADAMAX;
}

static const kolo_option adamax_options[] = {
    KOLO_NUMBER(adamax, beta_1, 0.9, 0, 1),
    KOLO_NUMBER(adamax, beta_2, 0.999, 0, 1),
    KOLO_NUMBER(adamax, epsilon, 1e-7, 0, INFINITY),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_adamax_kind = {
    .name = "adamax", .options = adamax_options, .learning_rate = 1e-3, .rule = adamax, .update = kolo_rule_update};

/* ---------------------------------------------------------------- Nadam */

/* Sets *now to µ of step t, *next to µ of step t + 1, and *product to the product of µ of the steps 1 … t. The loop
 * ends early once the product is too small to matter. */
static void schedule_of_momentum(double beta_1, int64_t step, double *now, double *next, double *product)
{
    double decay = 1;
    *product = 1;
    for (int64_t t = 1; t <= step && *product > 1e-20; t++) {
        decay *= 0.96;
        *product *= beta_1 * (1 - 0.5 * decay);
    }
    *now = beta_1 * (1 - 0.5 * pow(0.96, (double)step));
    *next = beta_1 * (1 - 0.5 * pow(0.96, (double)step + 1));
}

/* Dozat 2016, algorithm 8: µₜ = β₁(1 − 0.96ᵗ/2). */
static kolo_rule_kind nadam(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    const kolo_nadam_args *args = &optimizer->nadam;
    double now, next, product;
    schedule_of_momentum(args->beta_1, step, &now, &next, &product);
    rule[KOLO_RULE_BETA_1] = args->beta_1;
    rule[KOLO_RULE_BETA_2] = args->beta_2;
    rule[KOLO_RULE_EPSILON] = args->epsilon;
    rule[KOLO_RULE_OF_M] = next / (1 - product * next);
    rule[KOLO_RULE_OF_G] = (1 - now) / (1 - product);
    rule[KOLO_RULE_OF_V] = 1 / (1 - pow(args->beta_2, (double)step));
    return KOLO_RULE_NADAM;
}

const kolo_optimizer_kind kolo_nadam_kind = {
    .name = "nadam", .options = adamax_options, .learning_rate = 1e-3, .rule = nadam, .update = kolo_rule_update};
