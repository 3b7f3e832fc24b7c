/* Convolutions of 3 × 3 windows over 16, 32 or 64 channels to as many filters, whose gradients narrow elements have a
 * kernel of their own for: images of any size, one strip of rows or several, strides, with zeros around and without. */
#include "../pair.h"

static void small_layer_case(dice *d, int number)
{
    pair p = pair_new(d, "small layer", number);
    int channels = 16 << number % 3, filters = 16 << number / 3 % 3, most = channels * filters > 1024 ? 9 : 20;
    bool large = number % 9 == 0;
    kolo_shape in = {3, {roll_between(d, 3, most), roll_between(d, 3, most), channels}}, out;
    if (large) in = (kolo_shape){3, {26, roll_between(d, 24, 40), channels}};
    kolo_window window =
        rig_window(in, 3, 3, roll_between(d, 1, 2), roll_between(d, 1, 2), roll_coin(d), &out, filters);
    kolo_shape kernel = {4, {3, 3, channels, filters}};
    int x = 0, dy = 0, k = 0, dk = 0, dx = 0, dx_p[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x = rig_input(r, in);
        dy = rig_input(r, out);
        k = kolo_plan_weights(&r->plan, 0, kernel);
        dk = kolo_plan_gradient(&r->plan, 0, kernel);
        dx = rig_value(r, KOLO_VALUE_ACTIVATION, in);
        rig_op(r,
               (kolo_op){.kind = KOLO_OP_CONV2D_BACKWARD, .in = {dy, -1, x, k}, .out = {dx, dk, -1}, .window = window});
        dx_p[i] = rig_probe(r, dx);
        rig_prepare(r);
    }
    pair_write(&p, d, x);
    pair_write(&p, d, dy);
    pair_write(&p, d, k);
    pair_run(&p);
    pair_compare(&p, "dkernel", dk, dk, (double)p.r[0]->plan.microbatch * out.dim[0] * out.dim[1]);
    pair_compare(&p, "dx", BOTH(dx_p), 9.0 * filters);
    pair_free(&p);
}

static void test_small_layer(void **state)
{
    (void)state;
    dice d = {81};
    for (int number = 0; number < 54; number++) small_layer_case(&d, number);
}

/* Gradients by kernels of more than 64 channels are cuDNN's, rounded to the element: each is a bfloat16. */
static void test_wide_layer(void **state)
{
    (void)state;
    dice d = {82};
    kolo_shape in = {3, {5, 6, 96}}, out, kernel = {4, {3, 3, 96, 16}};
    kolo_window window = rig_window(in, 3, 3, 1, 1, true, &out, 16);
    pair p = {.what = "wide layer", .precision = KOLO_MIXED_BF16};
    int x = 0, dy = 0, dk = 0;
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i] = rig_new(i == 0 ? &kolo_reference_backend : tested, p.precision, 3);
        x = rig_input(r, in);
        dy = rig_input(r, out);
        dk = kolo_plan_gradient(&r->plan, 0, kernel);
        rig_op(r, (kolo_op){
                      .kind = KOLO_OP_CONV2D_BACKWARD, .in = {dy, -1, x, -1}, .out = {-1, dk, -1}, .window = window});
        rig_prepare(r);
    }
    pair_write(&p, &d, x);
    pair_write(&p, &d, dy);
    pair_run(&p);
    int64_t count = rig_count(p.r[0], dk);
    double *wanted = rig_read(p.r[0], dk), *got = rig_read(p.r[1], dk);
    assert_true(rig_distance(got, wanted, count) <= 0x1p-8);
    for (int64_t i = 0; i < count; i++) assert_true((double)nearest_bfloat16((float)got[i]) == got[i]);
    free(wanted);
    free(got);
    pair_free(&p);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wide_layer), cmocka_unit_test(test_small_layer)};
    if (getenv("ONLY")) cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
