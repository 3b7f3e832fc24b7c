/* A kind of optimizer that forgets a part is refused with a sentence when a model is compiled. */
#include "ext/core/small.h"

#include <string.h>

#include "optimizers/optimizer.h"

static int left_out; /* the number that the rule does not fill in; -1: it fills in all */

static kolo_rule_kind fill(double *rule, kolo_rule_kind kind)
{
    for (int i = KOLO_RULE_BETA_1; i < KOLO_RULE_USED; i++)
        if (i != left_out) rule[i] = 0.25;
    return kind;
}

static kolo_rule_kind as_nadam(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    (void)optimizer, (void)step;
    return fill(rule, KOLO_RULE_NADAM);
}

static kolo_rule_kind as_momentum(const kolo_optimizer *optimizer, int64_t step, double *rule)
{
    (void)optimizer, (void)step;
    return fill(rule, KOLO_RULE_MOMENTUM);
}

static kolo_status compile(const kolo_optimizer_kind *kind)
{
    kolo_model *model = small_model();
    kolo_status status =
        kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = (kolo_optimizer){.kind = kind});
    kolo_model_free(&model);
    return status;
}

static void refuse(const kolo_optimizer_kind *kind, const char *sentence)
{
    assert_int_not_equal(compile(kind), KOLO_OK);
    const char *text = kolo_last_error().text;
    if (!strstr(text, sentence)) fail_msg("wanted \"%s\" in: %s", sentence, text);
    kolo_clear_error();
}

static void numbers_that_a_rule_reads_are_needed(void **state)
{
    (void)state;
    kolo_optimizer_kind kind = {.name = "own", .learning_rate = 0.1, .rule = as_nadam, .update = kolo_rule_update};
    left_out = -1;
    assert_int_equal(compile(&kind), KOLO_OK);
    left_out = KOLO_RULE_BETA_2;
    refuse(&kind, "own: .rule: wanted every number that its rule reads, got NaN or none for KOLO_RULE_BETA_2");
    left_out = KOLO_RULE_OF_G;
    refuse(&kind, "own: .rule: wanted every number that its rule reads, got NaN or none for KOLO_RULE_OF_G");
    left_out = KOLO_RULE_DECAY; /* which nadam does not read */
    assert_int_equal(compile(&kind), KOLO_OK);
    kind.rule = as_momentum;
    left_out = KOLO_RULE_BETA_1;
    refuse(&kind, "got NaN or none for KOLO_RULE_BETA_1");
    left_out = KOLO_RULE_BETA_2;
    assert_int_equal(compile(&kind), KOLO_OK);
}

static void a_rule_without_rule_is_refused(void **state)
{
    (void)state;
    const kolo_optimizer_kind kind = {.name = "own", .learning_rate = 0.1, .update = kolo_rule_update};
    refuse(&kind, "own: wanted a kolo_optimizer_kind with .rule, since its .update is kolo_rule_update, got none");
}

static void update_nothing(const kolo_update *update)
{
    (void)update;
}

static void more_slots_than_there_are_are_refused(void **state)
{
    (void)state;
    const kolo_optimizer_kind kind = {.name = "own", .learning_rate = 0.1, .slots = 4, .update = update_nothing};
    refuse(&kind, "own: wanted at most 3 slots, got 4");
}

/* Every kind of Kolo's, with its defaults and where all decays, momenta and switches are on. */
static void kolos_own_are_complete(void **state)
{
    (void)state;
    const kolo_optimizer all[] = {kolo_sgd(),
                                  kolo_sgd(.momentum = 0.9),
                                  kolo_sgd(.momentum = 0.9, .nesterov = true),
                                  kolo_adagrad(),
                                  kolo_adadelta(),
                                  kolo_rmsprop(),
                                  kolo_rmsprop(.momentum = 0.9, .centered = true),
                                  kolo_rmsprop(.centered = true),
                                  kolo_adam(),
                                  kolo_adam(.amsgrad = true),
                                  kolo_adamw(),
                                  kolo_adamax(),
                                  kolo_nadam(),
                                  kolo_lars(),
                                  kolo_lars(.scale_vectors = true),
                                  kolo_lamb(),
                                  kolo_lamb(.weight_decay = 0.1),
                                  kolo_novograd(),
                                  kolo_sgd(.learning_rate = 0),
                                  kolo_adagrad(.initial_accumulator_value = 0, .epsilon = 0)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        kolo_optimizer complete;
        kolo_status status = kolo_optimizer_complete(&all[i], &complete);
        if (status != KOLO_OK) fail_msg("%s", kolo_failure_take().text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_a_rule_reads_are_needed), cmocka_unit_test(a_rule_without_rule_is_refused),
        cmocka_unit_test(more_slots_than_there_are_are_refused), cmocka_unit_test(kolos_own_are_complete)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
