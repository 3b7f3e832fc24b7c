/* Gradient descent with momentum. Read optimizers/optimizer.h first. */
#include "optimizers/optimizer.h"

static kolo_rule_kind rule(const kolo_optimizer *optimizer, int64_t step, double *numbers)
{
    const kolo_sgd_args *args = &optimizer->sgd;
    (void)step;
    numbers[KOLO_RULE_BETA_1] = args->momentum;
    if (!(args->momentum > 0)) return KOLO_RULE_SGD;
    return args->nesterov ? KOLO_RULE_NESTEROV : KOLO_RULE_MOMENTUM;
}

static const kolo_option options[] = {
    KOLO_NUMBER(sgd, momentum, 0, 0, 1),
    KOLO_SWITCH(sgd, nesterov),
    KOLO_OPTIONS_END,
};
const kolo_optimizer_kind kolo_sgd_kind = {
    .name = "sgd", .options = options, .learning_rate = 0.01, .rule = rule, .update = kolo_rule_update};
