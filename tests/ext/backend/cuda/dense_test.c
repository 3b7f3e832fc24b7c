/* Dense layers of the CUDA backend where values are not what they mostly are: canonical ones among narrow ones, and
 * weights that are read in their place among all weights, at any address. */
#include "../pair.h"

typedef struct wanted {
    bool canonical_y, canonical_dy, canonical_dx, relu, bias;
    size_t shift; /* bytes behind a multiple of 256, of weights that are read in their place */
} wanted;

/* What rig_write() would write where the plan says, there. */
static void move_weights(rig *r, int value, size_t shift)
{
    const kolo_value *v = &r->plan.values[value];
    if (shift == 0 || !r->stream || !v->in_place) return;
    void *whole = rig_allocate_poisoned(r, v->bytes + 256);
    rig_deallocate(r, r->memory[value]);
    r->memory[value] = (char *)whole + shift;
}
static void move_back(rig *r, int value, size_t shift)
{
    if (shift == 0 || !r->stream || !r->plan.values[value].in_place) return;
    r->memory[value] = (char *)r->memory[value] - shift;
}

static void compare(dice *d, const wanted *w, int number)
{
    pair p = pair_new(d, "dense", number);
    int inputs = roll_between(d, 1, 40), units = roll_between(d, 1, 40);
    kolo_shape in = {1, {inputs}}, out = {1, {units}}, kernel = {2, {inputs, units}};
    kolo_activation activation = w->relu ? KOLO_RELU : KOLO_LINEAR;
    bool fed = w->relu && !p.exact;
    int x = 0, dy = 0, y_in = -1, dy_in = 0, k = 0, b = -1, k_back = 0, y = 0, dx = 0, dk = 0, db = -1, y_p[2], dx_p[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x = rig_input(r, in);
        dy = rig_input(r, out);
        if (fed) y_in = rig_input(r, out);
        dy_in = rig_value(r, KOLO_VALUE_ACTIVATION, out);
        r->plan.values[dy_in].canonical = w->canonical_dy;
        rig_op(r, (kolo_op){.kind = KOLO_OP_ACTIVATION, .in = {dy}, .out = {dy_in}, .activation = KOLO_LINEAR});
        k = kolo_plan_weights(&r->plan, 0, kernel);
        k_back = kolo_plan_weights(&r->plan, 0, kernel);
        if (w->bias) b = kolo_plan_weights(&r->plan, 1, out);
        y = rig_value(r, KOLO_VALUE_ACTIVATION, out);
        dx = rig_value(r, KOLO_VALUE_ACTIVATION, in);
        r->plan.values[y].canonical = w->canonical_y;
        r->plan.values[dx].canonical = w->canonical_dx;
        dk = kolo_plan_gradient(&r->plan, 0, kernel);
        if (w->bias) db = kolo_plan_gradient(&r->plan, 1, out);
        rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE, .in = {x, k, b}, .out = {y}, .activation = activation});
        rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE_BACKWARD,
                            .in = {dy_in, w->relu ? (fed ? y_in : y) : -1, x, k_back},
                            .out = {dx, dk, db},
                            .activation = activation});
        y_p[i] = rig_probe(r, y);
        dx_p[i] = rig_probe(r, dx);
        rig_prepare(r);
        move_weights(r, k, w->shift);
        move_weights(r, k_back, w->shift);
        if (b >= 0) move_weights(r, b, w->shift);
    }
    pair_write(&p, d, x);
    pair_write(&p, d, dy);
    if (fed) pair_write(&p, d, y_in);
    pair_write_same(&p, d, k, k_back);
    if (w->bias) pair_write(&p, d, b);
    pair_run(&p);
    pair_compare(&p, "y", BOTH(y_p), inputs);
    pair_compare(&p, "dx", BOTH(dx_p), units);
    pair_compare(&p, "dkernel", dk, dk, p.r[0]->plan.microbatch);
    if (w->bias) pair_compare(&p, "dbias", db, db, p.r[0]->plan.microbatch);
    for (int i = 0; i < 2; i++) {
        move_back(p.r[i], k, w->shift);
        move_back(p.r[i], k_back, w->shift);
        if (b >= 0) move_back(p.r[i], b, w->shift);
    }
    pair_free(&p);
}

static void test_canonical_values(void **state)
{
    (void)state;
    dice d = {51};
    for (int number = 0; number < 128; number++)
        compare(&d,
                &(const wanted){.canonical_y = number & 1,
                                .canonical_dy = number & 2,
                                .canonical_dx = number & 4,
                                .relu = number & 8,
                                .bias = number & 16},
                number);
}

static void test_weights_anywhere(void **state)
{
    (void)state;
    dice d = {52};
    for (int number = 0; number < 48; number++)
        compare(&d,
                &(const wanted){
                    .canonical_y = number & 1, .bias = number & 2, .relu = number & 4, .shift = (size_t)number % 5 * 4},
                number);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_canonical_values),
                                       cmocka_unit_test(test_weights_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
