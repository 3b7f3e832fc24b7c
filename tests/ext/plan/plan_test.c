/* A plan as layers write it: what a layer gets wrong is a failure where the operation is added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "plan/plan.h"

/* Values 0 to 4, of which an operation may read and write any. */
static kolo_plan five_values(void)
{
    kolo_plan plan = {.microbatch = 2};
    for (int i = 0; i < 5; i++)
        assert_int_equal(kolo_plan_value(&plan, KOLO_VALUE_ACTIVATION, (kolo_shape){1, {3}}), i);
    return plan;
}

static void operands_that_a_kind_lacks_are_none(void **state)
{
    (void)state;
    kolo_plan plan = five_values();
    assert_int_equal(kolo_plan_op(&plan, (kolo_op){.kind = KOLO_OP_ADD, .in = {0, 1, -1}, .out = {2}}), KOLO_OK);
    for (int i = 2; i < KOLO_OP_INS; i++) assert_int_equal(plan.ops[0].in[i], -1);
    for (int i = 1; i < KOLO_OP_OUTS; i++) assert_int_equal(plan.ops[0].out[i], -1);
    kolo_plan_free(&plan);
}

static void fails(kolo_op op)
{
    kolo_plan plan = five_values();
    assert_int_equal(kolo_plan_op(&plan, op), KOLO_INTERNAL);
    assert_non_null(strstr(kolo_failure_take().text, "operation ADD: wanted at most 2 values in and 1 out"));
    assert_int_equal(plan.op_count, 0);
    kolo_plan_free(&plan);
}

static void more_operands_than_a_kind_has_fail(void **state)
{
    (void)state;
    fails((kolo_op){.kind = KOLO_OP_ADD, .in = {0, 1, 2}, .out = {3}});
    fails((kolo_op){.kind = KOLO_OP_ADD, .in = {0, 1}, .out = {3, 4}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operands_that_a_kind_lacks_are_none),
                                       cmocka_unit_test(more_operands_than_a_kind_has_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
