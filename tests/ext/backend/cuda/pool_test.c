/* What a max pooling of the CUDA backend does beside its own, held against the reference backend: relu's way back, the
 * gradient of a convolution's bias, and dropout. That it does it is seen from the plan, and from what is written when
 * the way back has come no further than the pooling. Numbers are exact (pair.h), so that no maximum hangs on rounding;
 * so is dropout by halves, as kept elements are doubled. */
#include "ext/backend/pair.h"

typedef struct chain {
    kolo_shape in, image, pooled;
    kolo_window window, pool;
    bool relu, drops;
    double rate;
    int x, dy, kernel, bias, convolved, largest, where, dropped, dlargest, dconvolved, dkernel, dbias;
    int y[2];
    int pooled_back; /* the operation */
} chain;

static void forward(rig *r, chain *c)
{
    kolo_shape bias = {1, {c->image.dim[2]}}, kernel = {4, {2, 2, c->in.dim[2], c->image.dim[2]}};
    c->x = rig_input(r, c->in);
    c->dy = rig_input(r, c->pooled);
    c->kernel = kolo_plan_weights(&r->plan, 0, kernel);
    c->bias = kolo_plan_weights(&r->plan, 1, bias);
    c->dkernel = kolo_plan_gradient(&r->plan, 0, kernel);
    c->dbias = kolo_plan_gradient(&r->plan, 1, bias);
    c->convolved = rig_value(r, KOLO_VALUE_ACTIVATION, c->image);
    c->largest = c->dropped = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
    c->where = rig_value(r, KOLO_VALUE_WORKSPACE, c->pooled);
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D,
                        .in = {c->x, c->kernel, c->bias},
                        .out = {c->convolved},
                        .window = c->window,
                        .activation = c->relu ? KOLO_RELU : KOLO_LINEAR});
    rig_op(r, (kolo_op){
                  .kind = KOLO_OP_MAX_POOL2D, .in = {c->convolved}, .out = {c->largest, c->where}, .window = c->pool});
}

static void backward(rig *r, chain *c)
{
    int dlargest = c->dy;
    if (c->drops) {
        int mask = rig_value(r, KOLO_VALUE_WORKSPACE, c->pooled);
        c->dropped = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
        dlargest = rig_value(r, KOLO_VALUE_ACTIVATION, c->pooled);
        rig_op(r, (kolo_op){.kind = KOLO_OP_DROPOUT,
                            .in = {c->largest},
                            .out = {c->dropped, mask},
                            .rate = c->rate,
                            .layer = 5});
        rig_op(r, (kolo_op){.kind = KOLO_OP_DROPOUT_BACKWARD,
                            .in = {c->dy, mask},
                            .out = {dlargest},
                            .rate = c->rate,
                            .layer = 5});
    }
    c->dconvolved = rig_value(r, KOLO_VALUE_ACTIVATION, c->image);
    c->pooled_back = r->plan.op_count;
    rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D_BACKWARD,
                        .in = {dlargest, c->where},
                        .out = {c->dconvolved},
                        .window = c->pool});
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D_BACKWARD,
                        .in = {c->dconvolved, c->relu ? c->convolved : -1, c->x, -1},
                        .out = {-1, c->dkernel, c->dbias},
                        .window = c->window,
                        .activation = c->relu ? KOLO_RELU : KOLO_LINEAR});
}

static chain draw(dice *d)
{
    static const int counts[] = {3, 8, 16, 20, 24, 32, 64, 72};
    chain c = {.relu = roll_coin(d), .drops = roll_coin(d), .rate = 0.5};
    int filters = counts[roll_between(d, 0, 7)], size = roll_between(d, 1, 3), stride = roll_between(d, 1, 3);
    c.in = (kolo_shape){3, {roll_between(d, 4, 10), roll_between(d, 4, 10), roll_between(d, 1, 2)}};
    c.window = rig_window(c.in, 2, 2, 1, 1, roll_coin(d), &c.image, filters);
    if (roll_coin(d)) stride = size;
    c.pool = rig_window(c.image, size, size, stride, stride, roll_coin(d), &c.pooled, filters);
    if (roll_between(d, 0, 4) == 0) /* of the whole image */
        c.pool = rig_window(c.image, c.image.dim[0], c.image.dim[1], 9, 9, false, &c.pooled, filters);
    return c;
}

/* Whether the windows are small and cover each pixel once. */
static bool exact(const chain *c)
{
    bool all = c->pool.kernel[0] * c->pool.kernel[1] <= 16;
    for (int axis = 0; axis < 2; axis++) {
        int end = c->pooled.dim[axis] * c->pool.stride[axis] - c->pool.before[axis];
        all = all && c->pool.stride[axis] == c->pool.kernel[axis] && end >= c->image.dim[axis];
    }
    return all;
}

static void chain_case(dice *d, int number)
{
    pair p = pair_new(d, "max_pool2d and its neighbours", number);
    chain c = draw(d);
    p.exact = true;
    for (int i = 0; i < 2; i++) {
        forward(p.r[i], &c);
        backward(p.r[i], &c);
        c.y[i] = rig_probe(p.r[i], c.dropped);
        rig_prepare(p.r[i]);
        p.r[i]->call.samples = roll_between(&(dice){(uint64_t)number}, 0, p.r[i]->plan.microbatch);
    }
    int64_t padded = (p.r[0]->plan.microbatch - p.r[0]->call.samples) * kolo_shape_count(c.pooled);
    pair_write(&p, d, c.x);
    pair_write(&p, d, c.kernel);
    pair_write(&p, d, c.bias);
    float *dy = numbers(d, rig_count(p.r[0], c.dy), 8);
    for (int64_t i = 0; i < padded; i++) dy[rig_count(p.r[0], c.dy) - 1 - i] = 0;
    for (int i = 0; i < 2; i++) rig_write(p.r[i], c.dy, dy);
    free(dy);

    bool narrow = p.precision == KOLO_MIXED_BF16 || p.precision == KOLO_MIXED_FP16;
    bool whole = c.image.dim[2] % (narrow ? 8 : 4) == 0;
    if (c.drops) assert_int_equal(p.r[1]->plan.values[c.dropped].view_of >= 0, whole);
    rig_tell(p.r[1]);
    rig_forget(p.r[1], c.dbias);
    for (int op = 0; op <= c.pooled_back; op++)
        if (p.r[1]->kernels[op]) rig_ok(tested->run(p.r[1]->kernels[op], &p.r[1]->call));
    double *dbias = rig_read(p.r[1], c.dbias);
    assert_int_equal(isfinite(dbias[0]), whole && exact(&c));
    free(dbias);

    pair_run(&p);
    pair_compare(&p, "y", BOTH(c.y), 1);
    pair_compare(&p, "dkernel", c.dkernel, c.dkernel, 1);
    pair_compare(&p, "dbias", c.dbias, c.dbias, 1);
    pair_free(&p);
}

static void test_chain(void **state)
{
    (void)state;
    check(chain_case, 7);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
