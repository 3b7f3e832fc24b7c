/* The rules of rules.h as loops over flat arrays. Each element's result depends on that element alone, so threads can
 * divide the arrays in any way. */
#include "optimizers/optimizer.h"

#include "core/vector.h"

_Static_assert((int)KOLO_RULE_USED <= KOLO_RULE_NUMBERS, "a kolo_step_parameters has room for a rule's numbers");

#define FITS(name, slots, function)                                                                                    \
    _Static_assert((slots) <= KOLO_OPTIMIZER_SLOTS,                                                                    \
                   "rule " #name " of KOLO_RULES: wanted at most 3 slots, got " #slots);
KOLO_RULES(FITS)
#undef FITS

typedef void loop(float *w, const float *g, float *a, float *b, float *c, int64_t count, float scale, kolo_rule n);

#define LOOP(name, slots, function)                                                                                    \
    KOLO_VECTORISED static void loop_##name(float *restrict w, const float *restrict g, float *restrict a,             \
                                            float *restrict b, float *restrict c, int64_t count, float scale,          \
                                            kolo_rule n)                                                               \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++) kolo_rule_step(KOLO_RULE_##name, n, w, g[i] * scale, a, b, c, i);          \
    }
KOLO_RULES(LOOP)

#define ENTRY(name, slots, function) [KOLO_RULE_##name] = loop_##name,
static loop *const loops[KOLO_RULE_KINDS] = {KOLO_RULES(ENTRY)};

kolo_rule_kind kolo_rule_numbers(const kolo_optimizer *optimizer, double learning_rate, int64_t step,
                                 double rule[KOLO_RULE_NUMBERS])
{
    for (int i = 0; i < KOLO_RULE_NUMBERS; i++) rule[i] = NAN;
    rule[KOLO_RULE_LEARNING_RATE] = rule[KOLO_RULE_RATE] = learning_rate;
    return optimizer->kind->rule(optimizer, step, rule);
}

KOLO_VECTORISED void kolo_rule_shrink(float *w, int64_t count, float rate)
{
    for (int64_t i = 0; i < count; i++) w[i] = kolo_shrunk(w[i], rate);
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
