/* The first layer's convolution, which has kernels of its own: windows over one channel or three, powers of two of
 * filters, bands of rows, strides, with a mask or without, a bias or none. */
#include "../pair.h"

static const int windows[][3] = {{3, 3, 1}, {5, 5, 1}, {3, 3, 3}};

static void first_layer_case(dice *d, int number)
{
    pair p = pair_new(d, "first layer", number);
    const int *w = windows[number % 3];
    bool large = number % 16 == 0, bias = roll_coin(d), relu = roll_coin(d), fed = relu && !p.exact;
    kolo_shape in = {3, {roll_between(d, w[0], 14), roll_between(d, w[1], 14), w[2]}}, out;
    if (large) in = (kolo_shape){3, {90, roll_between(d, 60, 80), w[2]}}; /* more than one band */
    int filters = 8 << roll_between(d, 0, large ? 0 : 3);
    kolo_window window =
        rig_window(in, w[0], w[1], roll_between(d, 1, 2), roll_between(d, 1, 3), roll_coin(d), &out, filters);
    kolo_shape kernel = {4, {w[0], w[1], w[2], filters}}, biases = {1, {filters}};
    kolo_activation activation = relu ? KOLO_RELU : KOLO_LINEAR;
    int x = 0, y_in = -1, dy = 0, k = 0, b = -1, y = 0, dk = 0, db = -1, y_p[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x = rig_input(r, in);
        dy = rig_input(r, out);
        if (fed) y_in = rig_input(r, out);
        k = kolo_plan_weights(&r->plan, 0, kernel);
        if (bias) b = kolo_plan_weights(&r->plan, 1, biases);
        y = rig_value(r, KOLO_VALUE_ACTIVATION, out);
        dk = kolo_plan_gradient(&r->plan, 0, kernel);
        if (bias) db = kolo_plan_gradient(&r->plan, 1, biases);
        rig_op(r, (kolo_op){
                      .kind = KOLO_OP_CONV2D, .in = {x, k, b}, .out = {y}, .window = window, .activation = activation});
        rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D_BACKWARD,
                            .in = {dy, relu ? (fed ? y_in : y) : -1, x, -1},
                            .out = {-1, dk, db},
                            .window = window,
                            .activation = activation});
        y_p[i] = rig_probe(r, y);
        rig_prepare(r);
    }
    assert_true(p.r[1]->plan.values[k].in_place); /* the kernels of its own have it so */
    pair_write(&p, d, x);
    pair_write(&p, d, dy);
    if (fed) pair_write(&p, d, y_in);
    pair_write(&p, d, k);
    if (bias) pair_write(&p, d, b);
    pair_run(&p);
    double pixels = p.r[0]->plan.microbatch * out.dim[0] * out.dim[1];
    pair_compare(&p, "y", BOTH(y_p), w[0] * w[1] * w[2]);
    pair_compare(&p, "dkernel", dk, dk, pixels);
    if (bias) pair_compare(&p, "dbias", db, db, pixels);
    pair_free(&p);
}

static void test_first_layer(void **state)
{
    (void)state;
    dice d = {61};
    for (int number = 0; number < 96; number++) first_layer_case(&d, number);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_layer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
