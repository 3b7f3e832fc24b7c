/* The rules of rules.h over flat arrays. Loops run over any part of them, so that threads can share them; every
 * element's result depends on that element alone. */
#include "optimizers/optimizer.h"

#include "core/vector.h"

_Static_assert((int)KOLO_RULE_USED <= KOLO_RULE_NUMBERS, "a kolo_step_parameters has room for a rule's numbers");

typedef void loop(float *w, const float *g, float *a, float *b, float *c, int64_t count, float scale, kolo_rule n);

#define LOOP(name, rule)                                                                                               \
    KOLO_VECTORISED static void name(float *restrict w, const float *restrict g, float *restrict a, float *restrict b, \
                                     float *restrict c, int64_t count, float scale, kolo_rule n)                       \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++) kolo_rule_step(rule, n, w, g[i] * scale, a, b, c, i);                      \
    }
LOOP(sgd, KOLO_RULE_SGD)
LOOP(momentum, KOLO_RULE_MOMENTUM)
LOOP(nesterov, KOLO_RULE_NESTEROV)
LOOP(adagrad, KOLO_RULE_ADAGRAD)
LOOP(adadelta, KOLO_RULE_ADADELTA)
LOOP(rmsprop, KOLO_RULE_RMSPROP)
LOOP(rmsprop_rolling, KOLO_RULE_RMSPROP_ROLLING)
LOOP(rmsprop_centered, KOLO_RULE_RMSPROP_CENTERED)
LOOP(rmsprop_both, KOLO_RULE_RMSPROP_BOTH)
LOOP(adam, KOLO_RULE_ADAM)
LOOP(amsgrad, KOLO_RULE_AMSGRAD)
LOOP(adamax, KOLO_RULE_ADAMAX)
LOOP(nadam, KOLO_RULE_NADAM)
LOOP(lars, KOLO_RULE_LARS)
LOOP(novograd, KOLO_RULE_NOVOGRAD)

static loop *const loops[KOLO_RULE_KINDS] = {[KOLO_RULE_SGD] = sgd,
                                             [KOLO_RULE_MOMENTUM] = momentum,
                                             [KOLO_RULE_NESTEROV] = nesterov,
                                             [KOLO_RULE_ADAGRAD] = adagrad,
                                             [KOLO_RULE_ADADELTA] = adadelta,
                                             [KOLO_RULE_RMSPROP] = rmsprop,
                                             [KOLO_RULE_RMSPROP_ROLLING] = rmsprop_rolling,
                                             [KOLO_RULE_RMSPROP_CENTERED] = rmsprop_centered,
                                             [KOLO_RULE_RMSPROP_BOTH] = rmsprop_both,
                                             [KOLO_RULE_ADAM] = adam,
                                             [KOLO_RULE_AMSGRAD] = amsgrad,
                                             [KOLO_RULE_ADAMAX] = adamax,
                                             [KOLO_RULE_NADAM] = nadam,
                                             [KOLO_RULE_LARS] = lars,
                                             [KOLO_RULE_LAMB] = sgd,
                                             [KOLO_RULE_NOVOGRAD] = novograd};

kolo_rule_kind kolo_rule_numbers(const kolo_optimizer *optimizer, double learning_rate, int64_t step,
                                 double rule[KOLO_RULE_NUMBERS])
{
    for (int i = 0; i < KOLO_RULE_NUMBERS; i++) rule[i] = 0;
    rule[KOLO_RULE_LEARNING_RATE] = rule[KOLO_RULE_RATE] = learning_rate;
    return optimizer->kind->rule(optimizer, step, rule);
}

void kolo_rule_run(kolo_rule_kind rule, kolo_rule n, const kolo_update *u, double scale)
{
    loops[rule](u->weights, u->gradient, u->slots[0], u->slots[1], u->slots[2], u->count, (float)scale, n);
}

void kolo_rule_update(const kolo_update *u)
{
    double rule[KOLO_RULE_NUMBERS];
    kolo_rule_kind kind = kolo_rule_numbers(u->optimizer, u->learning_rate, u->step, rule);
    bool linear = kind == KOLO_RULE_SGD || kind == KOLO_RULE_MOMENTUM || kind == KOLO_RULE_NESTEROV;
    if (linear) rule[KOLO_RULE_RATE] *= u->scale; /* one rounding fewer */
    kolo_rule_run(kind, kolo_rule_floats(rule), u, linear ? 1 : u->scale);
}
