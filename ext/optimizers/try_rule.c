/* Tries an optimizer's rule when a model is compiled, since a number that its kind forgets would be a wrong training
 * without a word. Read optimizers/optimizer.h first. */
#include "optimizers/optimizer.h"

#include <math.h>

enum { TRIED = 2 }; /* weights */

typedef struct trial {
    float weights[TRIED], gradient[TRIED], slots[KOLO_OPTIMIZER_SLOTS][TRIED], number;
} trial;

static void begin(trial *made, kolo_update *update, const kolo_optimizer *optimizer)
{
    const kolo_optimizer_kind *kind = optimizer->kind;
    *made = (trial){.weights = {0.5f, -0.25f}, .gradient = {0.25f, 0.5f}};
    *update = (kolo_update){.optimizer = optimizer,
                            .learning_rate = 0.125,
                            .step = 1,
                            .weights = made->weights,
                            .gradient = made->gradient,
                            .scale = 1,
                            .count = TRIED,
                            .number = &made->number};
    for (int s = 0; s < KOLO_OPTIMIZER_SLOTS; s++) {
        update->slots[s] = made->slots[s];
        for (int i = 0; i < TRIED && s < kolo_optimizer_slots(optimizer); i++)
            made->slots[s][i] = kind->slot_start ? kind->slot_start(optimizer, s) : 0;
    }
}

static bool is_nan(const trial *made)
{
    return isnan(made->weights[0]) || isnan(made->weights[1]);
}

/* Whether the rule's formula reads a number: NaN in this number, and in no other, becomes NaN in the weights. */
static bool is_read(const kolo_optimizer *optimizer, int number)
{
    trial made;
    kolo_update update;
    double rule[KOLO_RULE_NUMBERS];
    kolo_rule_kind kind = kolo_rule_numbers(optimizer, 0.125, 1, rule);
    for (int i = 0; i < KOLO_RULE_NUMBERS; i++)
        if (isnan(rule[i]) && i != number) rule[i] = 0.5;
    begin(&made, &update, optimizer);
    kolo_rule_run(kind, kolo_rule_floats(rule), &update, 1);
    return isnan(rule[number]) && is_nan(&made);
}

static kolo_status refuse(const kolo_optimizer *optimizer)
{
    static const char *const names[KOLO_RULE_USED] = {
        "KOLO_RULE_LEARNING_RATE", "KOLO_RULE_RATE",  "KOLO_RULE_BETA_1",       "KOLO_RULE_BETA_2",
        "KOLO_RULE_EPSILON",       "KOLO_RULE_OF_M",  "KOLO_RULE_OF_G",         "KOLO_RULE_OF_V",
        "KOLO_RULE_DECAY",         "KOLO_RULE_TRUST", "KOLO_RULE_PLAIN_VECTORS"};
    const char *name = "one of them";
    for (int i = 0; i < KOLO_RULE_USED; i++)
        if (is_read(optimizer, i)) name = names[i];
    return kolo_fail(KOLO_INVALID, "%s: .rule: wanted every number that its rule reads, got NaN or none for %s",
                     optimizer->kind->name, name);
}

kolo_status kolo_optimizer_try(const kolo_optimizer *optimizer)
{
    const kolo_optimizer_kind *kind = optimizer->kind;
    if (!kind->rule && kind->update == kolo_rule_update)
        return kolo_fail(KOLO_INVALID,
                         "%s: wanted a kolo_optimizer_kind with .rule, since its .update is "
                         "kolo_rule_update, got none",
                         kind->name);
    int slots = kolo_optimizer_slots(optimizer);
    if (slots < 0 || slots > KOLO_OPTIMIZER_SLOTS)
        return kolo_fail(KOLO_INVALID, "%s: wanted at most %d slots, got %d", kind->name, KOLO_OPTIMIZER_SLOTS, slots);
    if (!kind->rule) return KOLO_OK; /* a learner's own functions are not called for a trial */
    trial made;
    kolo_update update;
    begin(&made, &update, optimizer);
    if (kind->measure) kind->measure(&update);
    if (kind->settle) kind->settle(&update);
    kind->update(&update);
    return is_nan(&made) ? refuse(optimizer) : KOLO_OK;
}
