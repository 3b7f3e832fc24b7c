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

static void fails(kolo_plan plan, kolo_op op, const char *sentence)
{
    int ops = plan.op_count;
    assert_int_equal(kolo_plan_op(&plan, op), KOLO_INTERNAL);
    const char *text = kolo_failure_take().text;
    if (!strstr(text, sentence)) fail_msg("wanted \"%s\" in: %s", sentence, text);
    assert_int_equal(plan.op_count, ops);
    kolo_plan_free(&plan);
}

static void more_operands_than_a_kind_has_fail(void **state)
{
    (void)state;
    fails(five_values(), (kolo_op){.kind = KOLO_OP_ADD, .in = {0, 1, 2}, .out = {3}},
          "operation ADD: in[2]: wanted none, as in KOLO_OPS, got a value");
    fails(five_values(), (kolo_op){.kind = KOLO_OP_ADD, .in = {0, 1}, .out = {3, 4}},
          "operation ADD: out[1]: wanted none, as in KOLO_OPS, got a value");
}

/* Values 0: features {4}; 1, 2: activations {4}; 3: activation {3}; 4: weights {4, 3}; 5: gradient {4, 3}. */
static kolo_plan values_of_all_kinds(void)
{
    kolo_plan plan = {.microbatch = 2};
    kolo_shape four = {1, {4}}, three = {1, {3}}, kernel = {2, {4, 3}};
    assert_int_equal(kolo_plan_value(&plan, KOLO_VALUE_INPUT, four), 0);
    assert_int_equal(kolo_plan_value(&plan, KOLO_VALUE_ACTIVATION, four), 1);
    assert_int_equal(kolo_plan_value(&plan, KOLO_VALUE_ACTIVATION, four), 2);
    assert_int_equal(kolo_plan_value(&plan, KOLO_VALUE_ACTIVATION, three), 3);
    assert_int_equal(kolo_plan_weights(&plan, 0, kernel), 4);
    assert_int_equal(kolo_plan_gradient(&plan, 0, kernel), 5);
    return plan;
}

static void an_operand_that_is_left_out_fails(void **state)
{
    (void)state;
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_ADD, .in = {1}, .out = {2}},
          "operation ADD: in[1]: wanted an activation, got value 0, the features: an operand that is left out is 0");
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_ADD, .in = {1, 2}},
          "operation ADD: out[0]: wanted an activation, got value 0");
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_ADD, .in = {1, -1}, .out = {2}},
          "operation ADD: in[1]: wanted an activation, got none, -1");
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_DENSE, .in = {1, 0, -1}, .out = {3}},
          "operation DENSE: in[1]: wanted weights, got value 0");
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_DENSE_BACKWARD, .in = {3, -1, 1, -1}, .out = {-1, 4, -1}},
          "operation DENSE_BACKWARD: out[1]: wanted a gradient of weights, got weights");
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_ADD, .in = {1, 6}, .out = {2}},
          "operation ADD: in[1]: wanted the number of one of 6 values, got 6");
}

static void shapes_that_do_not_fit_fail(void **state)
{
    (void)state;
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_ADD, .in = {1, 3}, .out = {2}},
          "operation ADD: in[1]: wanted {4}, the shape of in[0], got {3}");
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_ACTIVATION, .in = {1}, .out = {3}},
          "operation ACTIVATION: out[0]: wanted {4}, the shape of in[0], got {3}");
    fails(values_of_all_kinds(), (kolo_op){.kind = KOLO_OP_DENSE, .in = {1, 4, -1}, .out = {2}},
          "operation DENSE: kernel: wanted {4, 4}, got {4, 3}");
    kolo_plan plan = values_of_all_kinds();
    assert_int_equal(kolo_plan_op(&plan, (kolo_op){.kind = KOLO_OP_DENSE, .in = {1, 4, -1}, .out = {3}}), KOLO_OK);
    kolo_op back = {.kind = KOLO_OP_DENSE_BACKWARD, .in = {3, -1, 1, -1}, .out = {-1, 5, -1}};
    assert_int_equal(kolo_plan_op(&plan, back), KOLO_OK);
    kolo_plan_free(&plan);
}

static void images_that_a_window_does_not_make_fail(void **state)
{
    (void)state;
    kolo_plan plan = {.microbatch = 2};
    int x = kolo_plan_value(&plan, KOLO_VALUE_ACTIVATION, (kolo_shape){3, {8, 8, 2}});
    int y = kolo_plan_value(&plan, KOLO_VALUE_ACTIVATION, (kolo_shape){3, {4, 3, 2}});
    kolo_window window = {.kernel = {2, 2}, .stride = {2, 2}};
    fails(plan, (kolo_op){.kind = KOLO_OP_AVERAGE_POOL2D, .in = {x}, .out = {y}, .window = window},
          "operation AVERAGE_POOL2D: the window's output: wanted {4, 4, 2}, got {4, 3, 2}");
}

static void a_value_that_nothing_writes_fails(void **state)
{
    (void)state;
    kolo_plan plan = values_of_all_kinds();
    const kolo_op *op = NULL;
    assert_int_equal(kolo_plan_op(&plan, (kolo_op){.kind = KOLO_OP_INPUT, .in = {0}, .out = {1}}), KOLO_OK);
    assert_int_equal(kolo_plan_check_order(&plan, &op), KOLO_OK);
    assert_int_equal(kolo_plan_op(&plan, (kolo_op){.kind = KOLO_OP_ACTIVATION, .in = {2}, .out = {1}}), KOLO_OK);
    assert_int_equal(kolo_plan_check_order(&plan, &op), KOLO_INTERNAL);
    assert_ptr_equal(op, &plan.ops[1]);
    assert_non_null(strstr(kolo_failure_take().text, "operation ACTIVATION: in[0]: wanted a value that an operation "
                                                     "before it writes, got value 2"));
    kolo_plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_that_a_kind_lacks_are_none),     cmocka_unit_test(more_operands_than_a_kind_has_fail),
        cmocka_unit_test(an_operand_that_is_left_out_fails),       cmocka_unit_test(shapes_that_do_not_fit_fail),
        cmocka_unit_test(images_that_a_window_does_not_make_fail), cmocka_unit_test(a_value_that_nothing_writes_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
