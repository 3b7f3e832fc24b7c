/* Operations of the CUDA backend that take the next one (backend/cuda/fusion.c), against the same two where
 * somebody else reads what is between them, so that neither is taken: not a bit may differ. */
#include "ext/backend/pair.h"

/* What is read of a rig; whether something was taken. */
typedef struct outcome {
    int read[2];
    int taken; /* its output */
} outcome;

typedef outcome builder(rig *r, dice *d, bool apart);

static kolo_shape shape;
static int inputs[3]; /* activations of it */

static int activation(rig *r)
{
    return rig_value(r, KOLO_VALUE_ACTIVATION, shape);
}

/* relu(norm(x) + other), the other one written before or behind the norm. */
static outcome norm_and_sum(rig *r, dice *d, bool apart)
{
    bool cut = roll_coin(d), swapped = roll_coin(d);
    int channels = shape.dim[shape.rank - 1], y = activation(r), sum = activation(r);
    int moments = rig_value(r, KOLO_VALUE_PARTIAL, (kolo_shape){1, {2 * channels + 1}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM_MOMENTS, .in = {inputs[0]}, .out = {moments}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM,
                        .in = {inputs[0], moments, -1, -1, -1, -1},
                        .out = {y, -1, -1},
                        .activation = roll_coin(d) ? KOLO_RELU : KOLO_LINEAR,
                        .epsilon = 1e-3});
    rig_op(r, (kolo_op){.kind = KOLO_OP_ADD,
                        .in = {swapped ? inputs[1] : y, swapped ? y : inputs[1]},
                        .out = {sum},
                        .activation = cut ? KOLO_RELU : KOLO_LINEAR});
    if (apart) rig_copied(r, y);
    return (outcome){{rig_copied(r, sum), -1}, sum};
}

static outcome gradient_and_sum(rig *r, dice *d, bool apart)
{
    int n = shape.dim[shape.rank - 1], dx = activation(r), sum = activation(r);
    int dscale = kolo_plan_gradient(&r->plan, 1, (kolo_shape){1, {n}});
    bool swapped = roll_coin(d);
    rig_op(r, (kolo_op){.kind = KOLO_OP_LAYER_NORM_BACKWARD,
                        .in = {inputs[0], inputs[1], -1},
                        .out = {dx, dscale, -1},
                        .epsilon = 1e-3});
    rig_op(r, (kolo_op){.kind = KOLO_OP_ADD, .in = {swapped ? inputs[2] : dx, swapped ? dx : inputs[2]}, .out = {sum}});
    if (apart) rig_copied(r, dx);
    return (outcome){{rig_copied(r, sum), dscale}, sum};
}

static outcome sum_and_mask(rig *r, dice *d, bool apart)
{
    int sum = activation(r), dx = activation(r);
    (void)d;
    rig_op(r, (kolo_op){.kind = KOLO_OP_ADD, .in = {inputs[0], inputs[1]}, .out = {sum}});
    rig_op(r,
           (kolo_op){
               .kind = KOLO_OP_ACTIVATION_BACKWARD, .in = {sum, inputs[2], -1}, .out = {dx}, .activation = KOLO_RELU});
    if (apart) rig_copied(r, sum);
    return (outcome){{rig_copied(r, dx), -1}, dx};
}

static void assert_same_bits(rig *a, int of_a, rig *b, int of_b)
{
    if (of_a < 0) return;
    double *first = rig_read(a, of_a), *second = rig_read(b, of_b);
    for (int64_t i = 0; i < rig_count(a, of_a); i++) assert_true(isfinite(first[i]));
    assert_memory_equal(first, second, (size_t)rig_count(a, of_a) * sizeof *first);
    free(first);
    free(second);
}

static void one_case(dice *d, builder *build)
{
    static const kolo_precision precisions[] = {KOLO_FLOAT32, KOLO_MIXED_BF16, KOLO_MIXED_FP16};
    static const int widths[] = {1, 3, 8, 17, 32, 40, 264, 1100};
    kolo_precision precision = precisions[roll_between(d, 0, 2)];
    int microbatch = roll_between(d, 1, 4), samples = roll_between(d, 1, microbatch);
    shape = (kolo_shape){2, {roll_between(d, 1, 9), widths[roll_between(d, 0, 7)]}};
    rig *r[2] = {rig_new(tested, precision, microbatch), rig_new(tested, precision, microbatch)};
    outcome found[2];
    dice before = *d;
    for (int i = 0; i < 2; i++) {
        *d = before;
        for (int k = 0; k < 3; k++) inputs[k] = rig_input(r[i], shape);
        found[i] = build(r[i], d, i == 1);
        rig_prepare(r[i]);
        r[i]->call.samples = samples;
        assert_int_equal(r[i]->plan.values[found[i].taken].view_of >= 0, i == 0);
    }
    for (int k = 0; k < 3; k++) {
        float *values = numbers(d, rig_count(r[0], inputs[k]), 0);
        for (int i = 0; i < 2; i++) rig_write(r[i], inputs[k], values);
        free(values);
    }
    for (int i = 0; i < 2; i++) rig_run(r[i]);
    for (int k = 0; k < 2; k++) assert_same_bits(r[0], found[0].read[k], r[1], found[1].read[k]);
    for (int i = 0; i < 2; i++) rig_free(r[i]);
}

static void test_taken(void **state)
{
    (void)state;
    dice d = {41};
    builder *const builders[] = {norm_and_sum, gradient_and_sum, sum_and_mask};
    for (int n = 0; n < 90; n++) one_case(&d, builders[n % 3]);
}

/* Of two norms that are added only the later one can, for the other's sum is not there yet. */
static void test_two_norms(void **state)
{
    (void)state;
    shape = (kolo_shape){1, {8}};
    rig *r = rig_new(tested, KOLO_FLOAT32, 5);
    int x[2] = {rig_input(r, shape), rig_input(r, shape)}, y[2], sum = activation(r);
    for (int i = 0; i < 2; i++) {
        int moments = rig_value(r, KOLO_VALUE_PARTIAL, (kolo_shape){1, {17}});
        y[i] = activation(r);
        rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM_MOMENTS, .in = {x[i]}, .out = {moments}});
        rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM,
                            .in = {x[i], moments, -1, -1, -1, -1},
                            .out = {y[i], -1, -1},
                            .epsilon = 1e-3});
    }
    rig_op(r, (kolo_op){.kind = KOLO_OP_ADD, .in = {y[0], y[1]}, .out = {sum}});
    int first = rig_copied(r, sum);
    rig_prepare(r);
    assert_int_equal(r->plan.values[sum].view_of, y[1]);
    float ones[40], ramp[40];
    for (int i = 0; i < 40; i++) ones[i] = 1, ramp[i] = (float)(i / 8); /* a norm of zeros; −√2 … √2 */
    rig_write(r, x[0], ones);
    rig_write(r, x[1], ramp);
    rig_run(r);
    double *sums = rig_read(r, first);
    for (int i = 0; i < 40; i++) assert_true(fabs(sums[i] - (i / 8 - 2) / sqrt(2 + 1e-3)) < 1e-6);
    free(sums);
    rig_free(r);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_taken), cmocka_unit_test(test_two_norms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
