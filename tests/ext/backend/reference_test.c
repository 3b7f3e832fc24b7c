/* The reference backend, by what a derivative is: every operation's gradients against central finite differences of
 * its own forward operation, in float64, with float32 operands perturbed by powers of two, so that nothing is rounded
 * on the way.
 *
 * Operations that are linear in what is perturbed must agree to the float32 in which gradients are kept: 2e-7 of the
 * largest. Where a kink of relu or of a maximum lies within the step (the second difference is not zero) the element
 * is left out; at most one in twenty may be. Curved operations have an error of
 * the step's square, held to the bound that each names.
 */
#include "rig.h"

#include "losses/loss.h"

#define STEP 0x1p-8

/* What a case perturbs: an input or weights, with the gradient that the backward operation gave. */
typedef struct source {
    int value, twin; /* twin: the same weights for the backward operation; -1 */
    float *numbers;
    int gradient; /* the value to be checked */
    const char *name;
} source;

typedef struct probe {
    rig *r;
    int y, forward_count; /* operations up to the forward one */
    const float *dy;
    int skipped, checked;
} probe;

/* Σ dy·y after the forward operations. */
static double objective(const probe *p)
{
    for (int op = 0; op < p->forward_count; op++) rig_ok(p->r->backend->run(p->r->kernels[op], &p->r->call));
    double *y = rig_read(p->r, p->y), sum = 0;
    for (int64_t i = 0; i < rig_count(p->r, p->y); i++) sum += (double)p->dy[i] * y[i];
    free(y);
    return sum;
}

static double objective_at(const probe *p, const source *s, int64_t i, float value)
{
    float kept = s->numbers[i];
    s->numbers[i] = value;
    rig_write(p->r, s->value, s->numbers);
    double result = objective(p);
    s->numbers[i] = kept;
    rig_write(p->r, s->value, s->numbers);
    return result;
}

static void check_source(probe *p, const source *s, double curved, dice *d)
{
    double *gradient = rig_read(p->r, s->gradient), largest = 0, here = objective(p);
    int64_t count = rig_count(p->r, s->value);
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(gradient[i]));
    for (int n = 0; n < 12; n++) {
        int64_t i = roll_between(d, 0, (int)count - 1);
        double up = objective_at(p, s, i, s->numbers[i] + (float)STEP);
        double down = objective_at(p, s, i, s->numbers[i] - (float)STEP);
        p->checked++;
        if (curved == 0 && fabs(up - 2 * here + down) > 1e-12 * (fabs(here) + 1)) {
            p->skipped++;
            continue;
        }
        double difference = (up - down) / (2 * STEP), bound = (curved > 0 ? curved : 2e-7) * fmax(largest, 1e-3);
        if (!(fabs(difference - gradient[i]) <= bound)) {
            print_error("d %s[%d]: %.12g, by differences %.12g\n", s->name, (int)i, gradient[i], difference);
        }
        assert_true(fabs(difference - gradient[i]) <= bound);
    }
    free(gradient);
}

/* Runs everything once, then perturbs. */
static void check_case(rig *r, int dy, int y, source *sources, int count, double curved, int *skipped, int *checked,
                       dice *d)
{
    float *out = numbers(d, rig_count(r, dy), 1024);
    probe p = {.r = r, .y = y, .dy = out};
    while (r->plan.ops[p.forward_count].out[0] != y) p.forward_count++;
    p.forward_count++;
    rig_write(r, dy, out);
    for (int s = 0; s < count; s++) {
        sources[s].numbers = numbers(d, rig_count(r, sources[s].value), 1024);
        rig_write(r, sources[s].value, sources[s].numbers);
        if (sources[s].twin >= 0) rig_write(r, sources[s].twin, sources[s].numbers);
    }
    rig_run(r);
    for (int s = 0; s < count; s++) check_source(&p, &sources[s], curved, d);
    for (int s = 0; s < count; s++) free(sources[s].numbers);
    *skipped += p.skipped;
    *checked += p.checked;
    free(out);
}

/* A weighted operation on x: convolution, or dense where kernel.rank is 2. */
static void weighted_case(dice *d, kolo_shape in, kolo_shape out, kolo_shape kernel, kolo_window window, bool relu,
                          int *skipped, int *checked)
{
    bool dense = kernel.rank == 2;
    kolo_activation activation = relu ? KOLO_RELU : KOLO_LINEAR;
    rig *r = rig_new(&kolo_reference_backend, KOLO_FLOAT32, roll_between(d, 1, 3));
    int dy = rig_input(r, out), x = rig_input(r, in);
    int k = kolo_plan_weights(&r->plan, 0, kernel), k_back = kolo_plan_weights(&r->plan, 0, kernel);
    int b = kolo_plan_weights(&r->plan, 1, (kolo_shape){1, {kernel.dim[kernel.rank - 1]}});
    int y = rig_value(r, KOLO_VALUE_ACTIVATION, out), dx = rig_value(r, KOLO_VALUE_ACTIVATION, in);
    int dk = kolo_plan_gradient(&r->plan, 0, kernel);
    int db = kolo_plan_gradient(&r->plan, 1, (kolo_shape){1, {kernel.dim[kernel.rank - 1]}});
    rig_op(r, (kolo_op){.kind = dense ? KOLO_OP_DENSE : KOLO_OP_CONV2D,
                        .in = {x, k, b},
                        .out = {y},
                        .window = window,
                        .activation = activation});
    rig_op(r, (kolo_op){.kind = dense ? KOLO_OP_DENSE_BACKWARD : KOLO_OP_CONV2D_BACKWARD,
                        .in = {dy, relu ? y : -1, x, k_back},
                        .out = {dx, dk, db},
                        .window = window,
                        .activation = activation});
    rig_prepare(r);
    source sources[] = {{x, -1, NULL, dx, "x"}, {k, k_back, NULL, dk, "kernel"}, {b, -1, NULL, db, "bias"}};
    check_case(r, dy, y, sources, 3, 0, skipped, checked, d);
    rig_free(r);
}

static void assert_few(int skipped, int checked)
{
    assert_true(checked > 0);
    if (skipped * 20 > checked) print_error("%d of %d left out\n", skipped, checked);
    assert_true(skipped * 20 <= checked);
}

static void test_conv2d(void **state)
{
    (void)state;
    dice d = {11};
    int skipped = 0, checked = 0;
    for (int n = 0; n < 60; n++) {
        kolo_shape in = {3, {roll_between(&d, 1, 6), roll_between(&d, 1, 6), roll_between(&d, 1, 4)}}, out;
        bool same = roll_coin(&d);
        int kh = roll_between(&d, 1, same ? 4 : in.dim[0]), kw = roll_between(&d, 1, same ? 4 : in.dim[1]);
        int filters = roll_between(&d, 1, 5);
        kolo_window window =
            rig_window(in, kh, kw, roll_between(&d, 1, 3), roll_between(&d, 1, 3), same, &out, filters);
        weighted_case(&d, in, out, (kolo_shape){4, {kh, kw, in.dim[2], filters}}, window, roll_coin(&d), &skipped,
                      &checked);
    }
    assert_few(skipped, checked);
}

static void test_dense(void **state)
{
    (void)state;
    dice d = {12};
    int skipped = 0, checked = 0;
    for (int n = 0; n < 60; n++) {
        int inputs = roll_between(&d, 1, 9), units = roll_between(&d, 1, 7);
        kolo_shape in = {1, {inputs}}, out = {1, {units}};
        if (roll_coin(&d)) {
            in = (kolo_shape){2, {3, inputs}};
            out = (kolo_shape){2, {3, units}};
        }
        weighted_case(&d, in, out, (kolo_shape){2, {inputs, units}}, (kolo_window){0}, roll_coin(&d), &skipped,
                      &checked);
    }
    assert_few(skipped, checked);
}

static void test_max_pool2d(void **state)
{
    (void)state;
    dice d = {13};
    int skipped = 0, checked = 0;
    for (int n = 0; n < 60; n++) {
        kolo_shape in = {3, {roll_between(&d, 1, 7), roll_between(&d, 1, 7), roll_between(&d, 1, 4)}}, out;
        int kh = roll_between(&d, 1, in.dim[0] < 3 ? in.dim[0] : 3),
            kw = roll_between(&d, 1, in.dim[1] < 3 ? in.dim[1] : 3);
        kolo_window window =
            rig_window(in, kh, kw, roll_between(&d, 1, 3), roll_between(&d, 1, 3), roll_coin(&d), &out, in.dim[2]);
        rig *r = rig_new(&kolo_reference_backend, KOLO_FLOAT32, 2);
        int dy = rig_input(r, out), x = rig_input(r, in);
        int y = rig_value(r, KOLO_VALUE_ACTIVATION, out), where = rig_value(r, KOLO_VALUE_WORKSPACE, out);
        int dx = rig_value(r, KOLO_VALUE_ACTIVATION, in);
        rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D, .in = {x}, .out = {y, where}, .window = window});
        rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D_BACKWARD, .in = {dy, where}, .out = {dx}, .window = window});
        rig_prepare(r);
        check_case(r, dy, y, &(source){x, -1, NULL, dx, "x"}, 1, 0, &skipped, &checked, &d);
        rig_free(r);
    }
    assert_few(skipped, checked);
}

static void activation_case(dice *d, kolo_activation activation, int *skipped, int *checked)
{
    kolo_shape shape = {3, {2, roll_between(d, 1, 3), roll_between(d, 1, 6)}};
    bool of_x = activation == KOLO_GELU || activation == KOLO_GELU_TANH || activation == KOLO_SILU;
    rig *r = rig_new(&kolo_reference_backend, KOLO_FLOAT32, 2);
    int dy = rig_input(r, shape), x = rig_input(r, shape);
    int y = rig_value(r, KOLO_VALUE_ACTIVATION, shape), dx = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
    rig_op(r, (kolo_op){.kind = KOLO_OP_ACTIVATION, .in = {x}, .out = {y}, .activation = activation});
    rig_op(r, (kolo_op){.kind = KOLO_OP_ACTIVATION_BACKWARD,
                        .in = {dy, of_x ? -1 : y, of_x ? x : -1},
                        .out = {dx},
                        .activation = activation});
    rig_prepare(r);
    bool kinked = activation == KOLO_RELU || activation == KOLO_LEAKY_RELU;
    double curved = activation == KOLO_ELU ? 1e-3 : 1e-4; /* elu's curvature has a jump */
    check_case(r, dy, y, &(source){x, -1, NULL, dx, "x"}, 1, kinked ? 0 : curved, skipped, checked, d);
    rig_free(r);
}

static void test_activation(void **state)
{
    (void)state;
    dice d = {14};
    for (kolo_activation activation = KOLO_RELU; activation <= KOLO_ELU; activation++) {
        int skipped = 0, checked = 0;
        for (int n = 0; n < 40; n++) activation_case(&d, activation, &skipped, &checked);
        assert_few(skipped, checked);
    }
}

/* Linear in x, with the mask that seed, step and sample make. */
static void test_dropout(void **state)
{
    (void)state;
    dice d = {15};
    int skipped = 0, checked = 0;
    for (int n = 0; n < 20; n++) {
        kolo_shape shape = {1, {roll_between(&d, 1, 40)}};
        rig *r = rig_new(&kolo_reference_backend, KOLO_FLOAT32, 3);
        int dy = rig_input(r, shape), x = rig_input(r, shape);
        int y = rig_value(r, KOLO_VALUE_ACTIVATION, shape), mask = rig_value(r, KOLO_VALUE_WORKSPACE, shape);
        int dx = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
        rig_op(r, (kolo_op){.kind = KOLO_OP_DROPOUT, .in = {x}, .out = {y, mask}, .rate = 0.4});
        rig_op(r, (kolo_op){.kind = KOLO_OP_DROPOUT_BACKWARD, .in = {dy, mask}, .out = {dx}, .rate = 0.4});
        rig_prepare(r);
        check_case(r, dy, y, &(source){x, -1, NULL, dx, "x"}, 1, 0, &skipped, &checked, &d);
        rig_free(r);
    }
    assert_int_equal(skipped, 0);
}

static double loss_of(const float *outputs, int count, int label, float *gradient)
{
    return KOLO_SPARSE_CROSSENTROPY.kind->row(&(kolo_row){.outputs = outputs, .count = count, .label = label},
                                              gradient);
}

static double hit(const float *outputs, int count, int label)
{
    double sum = 0;
    KOLO_ACCURACY.kind->row(&(kolo_row){.outputs = outputs, .count = count, .label = label}, 1, &sum);
    return sum;
}

/* The loss's gradient, and that every sample counts once. */
static void test_loss(void **state)
{
    (void)state;
    enum { classes = 7 };
    dice d = {16};
    for (int n = 0; n < 20; n++) {
        float *z = numbers(&d, classes, 1024), gradient[classes];
        int label = roll_between(&d, 0, classes - 1);
        for (int i = 0; i < classes; i++) z[i] *= 8;
        loss_of(z, classes, label, gradient);
        for (int i = 0; i < classes; i++) {
            float kept = z[i];
            z[i] = kept + (float)STEP;
            double up = loss_of(z, classes, label, NULL);
            z[i] = kept - (float)STEP;
            double down = loss_of(z, classes, label, NULL);
            z[i] = kept;
            assert_true(fabs((up - down) / (2 * STEP) - (double)gradient[i]) < 1e-5);
        }
        free(z);
    }
    const float huge[] = {1000, -1000, 0};
    assert_true(loss_of(huge, 3, 0, NULL) == 0);
    assert_true(loss_of(huge, 3, 1, NULL) == 2000);
    const float equal[] = {2, 3, 3};
    assert_true(hit(equal, 3, 1) == 1 && hit(equal, 3, 2) == 0);
}

/* What mixed precision rounds: 1 + 2^-9 is nearest to 1 in bfloat16, 1 + 3·2^-9 to 1 + 2^-7; biases and outputs stay.
 */
static void test_bfloat16(void **state)
{
    (void)state;
    kolo_shape one = {1, {1}};
    rig *r = rig_new(&kolo_reference_backend, KOLO_MIXED_BF16, 1);
    int x = rig_input(r, one), k = kolo_plan_weights(&r->plan, 0, (kolo_shape){2, {1, 1}});
    int b = kolo_plan_weights(&r->plan, 1, one), y = rig_value(r, KOLO_VALUE_ACTIVATION, one);
    r->plan.values[y].canonical = true;
    rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE, .in = {x, k, b}, .out = {y}});
    rig_prepare(r);
    rig_write(r, x, &(const float){1 + 0x1p-9f});
    rig_write(r, k, &(const float){1 + 3 * 0x1p-9f});
    rig_write(r, b, &(const float){0x1p-20f});
    rig_run(r);
    double *result = rig_read(r, y);
    assert_true(*result == 1 + 0x1p-7 + 0x1p-20);
    free(result);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d),     cmocka_unit_test(test_dense),   cmocka_unit_test(test_max_pool2d),
        cmocka_unit_test(test_activation), cmocka_unit_test(test_dropout), cmocka_unit_test(test_loss),
        cmocka_unit_test(test_bfloat16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
