/* Activations of a backend held against the reference backend, which is float64 inside: random rows and images, with
 * channels that fill no block, and microbatches of one. Bounds: pair.h. */
#include "pair.h"

static void activation_case(dice *d, int number)
{
    pair p = pair_new(d, "activation", number);
    kolo_activation activation = roll_between(d, KOLO_RELU, KOLO_ELU);
    bool softmax = activation == KOLO_SOFTMAX, image = roll_coin(d);
    bool of_x = activation == KOLO_GELU || activation == KOLO_GELU_TANH || activation == KOLO_SILU;
    kolo_shape shape = {1, {roll_between(d, 1, 70)}};
    if (image) shape = (kolo_shape){3, {roll_between(d, 1, 5), roll_between(d, 1, 5), roll_between(d, 1, 40)}};
    if (activation != KOLO_RELU) p.exact = false; /* exp never is */
    int x = 0, dy = 0, y, dx, y_p[2], dx_p[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x = rig_input(r, shape);
        dy = rig_input(r, shape);
        y = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
        dx = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
        rig_op(r, (kolo_op){.kind = KOLO_OP_ACTIVATION, .in = {x}, .out = {y}, .activation = activation});
        rig_op(r, (kolo_op){.kind = KOLO_OP_ACTIVATION_BACKWARD,
                            .in = {dy, of_x ? -1 : y, of_x ? x : -1},
                            .out = {dx},
                            .activation = activation});
        y_p[i] = rig_probe(r, y);
        dx_p[i] = rig_probe(r, dx);
        rig_prepare(r);
    }
    pair_write(&p, d, x);
    pair_write(&p, d, dy);
    pair_run(&p);
    pair_compare(&p, "y", BOTH(y_p), softmax ? 0 : 1);
    /* dx by its own y, whose last places differ in bfloat16: softmax's own, and 1 − y² where y is near 1 */
    bool rounded = !of_x && activation != KOLO_RELU && p.precision != KOLO_FLOAT32;
    if (!rounded) pair_compare(&p, "dx", BOTH(dx_p), softmax ? 0 : 1);
    pair_free(&p);
}

static void test_activation(void **state)
{
    (void)state;
    check(activation_case, 4);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
