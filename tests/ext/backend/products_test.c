/* Convolutions and dense layers of a backend held against the reference backend, which is float64 inside: hundreds of
 * random shapes, with strides, padding, channels that fill no block, and microbatches of one. Bounds: pair.h. */
#include "pair.h"

/* ---- convolution */

static void conv2d_case(dice *d, int number)
{
    static const int channel_counts[] = {1, 2, 3, 5, 8, 13, 16, 17, 20, 32, 40};
    pair p = pair_new(d, "conv2d", number);
    p.rounds = is_rounded(&p);
    int channels = channel_counts[roll_between(d, 0, 10)], filters = channel_counts[roll_between(d, 0, 10)];
    kolo_shape in = {3, {roll_between(d, 1, 12), roll_between(d, 1, 12), channels}}, out;
    bool same = roll_coin(d), bias = roll_coin(d), relu = roll_coin(d), wants_dx = roll_between(d, 0, 3) > 0;
    int kh = roll_between(d, 1, same ? 5 : in.dim[0] < 5 ? in.dim[0] : 5);
    int kw = roll_between(d, 1, same ? 5 : in.dim[1] < 5 ? in.dim[1] : 5);
    kolo_window window = rig_window(in, kh, kw, roll_between(d, 1, 3), roll_between(d, 1, 3), same, &out, filters);
    kolo_shape kernel = {4, {kh, kw, channels, filters}}, biases = {1, {filters}};
    /* relu's mask: from the forward operation where it is exact, else fed, so that no sign hangs on rounding. */
    bool fed = relu && !p.exact;
    int x = 0, y_in = -1, dy = 0, k = 0, b = -1, k_back = -1, y = 0, dx = -1, dk = 0, db = -1, y_p[2], dx_p[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x = rig_input(r, in);
        dy = rig_input(r, out);
        if (fed) y_in = rig_input(r, out);
        k = kolo_plan_weights(&r->plan, 0, kernel);
        if (bias) b = kolo_plan_weights(&r->plan, 1, biases);
        if (wants_dx) k_back = kolo_plan_weights(&r->plan, 0, kernel);
        y = rig_value(r, KOLO_VALUE_ACTIVATION, out);
        if (wants_dx) dx = rig_value(r, KOLO_VALUE_ACTIVATION, in);
        dk = kolo_plan_gradient(&r->plan, 0, kernel);
        if (bias) db = kolo_plan_gradient(&r->plan, 1, biases);
        kolo_activation activation = relu ? KOLO_RELU : KOLO_LINEAR;
        rig_op(r, (kolo_op){
                      .kind = KOLO_OP_CONV2D, .in = {x, k, b}, .out = {y}, .window = window, .activation = activation});
        rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D_BACKWARD,
                            .in = {dy, relu ? (fed ? y_in : y) : -1, x, k_back},
                            .out = {dx, dk, db},
                            .window = window,
                            .activation = activation});
        y_p[i] = rig_probe(r, y);
        if (wants_dx) dx_p[i] = rig_probe(r, dx);
        rig_prepare(r);
    }
    pair_write(&p, d, x);
    pair_write(&p, d, dy);
    if (fed) pair_write(&p, d, y_in);
    if (wants_dx) pair_write_same(&p, d, k, k_back);
    if (!wants_dx) pair_write(&p, d, k);
    if (bias) pair_write(&p, d, b);
    pair_run(&p);
    double area = kh * kw, pixels = p.r[0]->plan.microbatch * out.dim[0] * out.dim[1];
    pair_compare(&p, "y", BOTH(y_p), area * channels);
    if (wants_dx) pair_compare(&p, "dx", BOTH(dx_p), area * filters);
    pair_compare(&p, "dkernel", dk, dk, pixels);
    if (bias) pair_compare(&p, "dbias", db, db, pixels);
    pair_free(&p);
}

/* ---- dense */

static void dense_case(dice *d, int number)
{
    pair p = pair_new(d, "dense", number);
    int inputs = roll_between(d, 1, roll_coin(d) ? 12 : 700), units = roll_between(d, 1, roll_coin(d) ? 12 : 150);
    bool rows = roll_between(d, 0, 3) == 0, bias = roll_coin(d), relu = roll_coin(d), fed = relu && !p.exact;
    kolo_shape in = {1, {inputs}}, out = {1, {units}};
    if (rows) in = (kolo_shape){3, {roll_between(d, 1, 4), roll_between(d, 1, 4), inputs}};
    if (rows) out = (kolo_shape){3, {in.dim[0], in.dim[1], units}};
    kolo_shape kernel = {2, {inputs, units}}, biases = {1, {units}};
    kolo_activation activation = relu ? KOLO_RELU : KOLO_LINEAR;
    int x = 0, y_in = -1, dy = 0, k = 0, b = -1, k_back = 0, y, dx, dk = 0, db = -1, y_p[2], dx_p[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x = rig_input(r, in);
        dy = rig_input(r, out);
        if (fed) y_in = rig_input(r, out);
        k = kolo_plan_weights(&r->plan, 0, kernel);
        k_back = kolo_plan_weights(&r->plan, 0, kernel);
        if (bias) b = kolo_plan_weights(&r->plan, 1, biases);
        y = rig_value(r, KOLO_VALUE_ACTIVATION, out);
        dx = rig_value(r, KOLO_VALUE_ACTIVATION, in);
        dk = kolo_plan_gradient(&r->plan, 0, kernel);
        if (bias) db = kolo_plan_gradient(&r->plan, 1, biases);
        rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE, .in = {x, k, b}, .out = {y}, .activation = activation});
        rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE_BACKWARD,
                            .in = {dy, relu ? (fed ? y_in : y) : -1, x, k_back},
                            .out = {dx, dk, db},
                            .activation = activation});
        y_p[i] = rig_probe(r, y);
        dx_p[i] = rig_probe(r, dx);
        rig_prepare(r);
    }
    pair_write(&p, d, x);
    pair_write(&p, d, dy);
    if (fed) pair_write(&p, d, y_in);
    pair_write_same(&p, d, k, k_back);
    if (bias) pair_write(&p, d, b);
    pair_run(&p);
    double count = p.r[0]->plan.microbatch * (double)kolo_shape_count(in) / inputs;
    pair_compare(&p, "y", BOTH(y_p), inputs);
    pair_compare(&p, "dx", BOTH(dx_p), units);
    pair_compare(&p, "dkernel", dk, dk, count);
    if (bias) pair_compare(&p, "dbias", db, db, count);
    pair_free(&p);
}

static void test_conv2d(void **state)
{
    (void)state;
    check(conv2d_case, 1);
}
static void test_dense(void **state)
{
    (void)state;
    check(dense_case, 2);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv2d), cmocka_unit_test(test_dense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
