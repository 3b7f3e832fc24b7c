/* A model lowered to a plan. */
#include "ext/core/small.h"

#include "model/lower.h"
#include "model/model.h"

static bool is_read(const kolo_plan *plan, int value)
{
    for (int o = 0; o < plan->op_count; o++)
        for (int i = 0; i < KOLO_OP_INS; i++)
            if (plan->ops[o].in[i] == value) return true;
    return false;
}

/* Lowers the model for training, and frees it. Returns the number of reductions over microbatches. */
static int count_reductions(kolo_model *model)
{
    kolo_plan plan;
    int count = 0;
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1),
                     KOLO_OK);
    assert_int_equal(kolo_lower(model, KOLO_FOR_TRAINING, 4, &plan), KOLO_OK);
    for (int o = 0; o < plan.op_count; o++) {
        if (plan.ops[o].kind != KOLO_OP_REDUCE) continue;
        assert_true(is_read(&plan, plan.ops[o].out[0]));
        count++;
    }
    kolo_plan_free(&plan);
    kolo_model_free(&model);
    return count;
}

/* A reduction behind the last segment would read partial sums that nobody keeps. */
static void a_sum_that_nobody_reads_is_not_reduced(void **state)
{
    (void)state;
    assert_int_equal(count_reductions(kolo_sequential(kolo_input(6), kolo_batch_norm(), kolo_dense(3))), 1);
    assert_int_equal(count_reductions(kolo_sequential(kolo_input(6), kolo_dense(4), kolo_batch_norm(), kolo_dense(3))),
                     2);
    assert_int_equal(count_reductions(kolo_sequential(kolo_input(6), kolo_batch_norm(.synchronized = true),
                                                      kolo_batch_norm(), kolo_dense(3))),
                     3);
    assert_int_equal(count_reductions(kolo_sequential(kolo_input(6), kolo_batch_norm(.ghost_batch = 4), kolo_dense(3))),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sum_that_nobody_reads_is_not_reduced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
