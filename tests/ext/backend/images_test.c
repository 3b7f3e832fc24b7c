/* Operations on images but convolutions, a backend against the reference backend: pooling, padding, upsampling,
 * concatenation and its slices, products; from inputs that lie in the canonical order or as a convolution would like
 * them, which on a GPU is the same. Bounds: pair.h. */
#include "pair.h"

/* A convolution that reads x as well: x then lies as that convolution likes it. */
static void add_reader(rig *r, int x)
{
    if (tested->devices) return;
    kolo_shape in = r->plan.values[x].shape;
    kolo_window pixel = {.kernel = {1, 1}, .stride = {1, 1}};
    int k = kolo_plan_weights(&r->plan, 0, (kolo_shape){4, {1, 1, in.dim[2], 32}});
    int y = rig_value(r, KOLO_VALUE_ACTIVATION, (kolo_shape){3, {in.dim[0], in.dim[1], 32}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D, .in = {x, k, -1}, .out = {y}, .window = pixel});
}

static kolo_shape roll_image(dice *d, int most)
{
    static const int channels[] = {1, 2, 3, 8, 13, 16, 17, 20, 32, 40, 48};
    return (kolo_shape){3, {roll_between(d, 1, most), roll_between(d, 1, most), channels[roll_between(d, 0, 10)]}};
}

/* Both operations of one input and one output: y of x, and dx of dy. */
static void both_ways(pair *p, dice *d, kolo_op forward, kolo_op backward, kolo_shape in, kolo_shape out, double terms)
{
    int x = 0, dy = 0, y_p[2], dx_p[2];
    bool tiled = in.rank == 3 && roll_coin(d), dy_tiled = in.rank == 3 && roll_coin(d);
    for (int i = 0; i < 2; i++) {
        rig *r = p->r[i];
        x = forward.in[0] = rig_input(r, in);
        dy = backward.in[0] = rig_input(r, out);
        forward.out[0] = rig_value(r, KOLO_VALUE_ACTIVATION, out);
        backward.out[0] = rig_value(r, KOLO_VALUE_ACTIVATION, in);
        rig_op(r, forward);
        rig_op(r, backward);
        if (tiled) add_reader(r, x);
        if (dy_tiled) add_reader(r, dy);
        y_p[i] = rig_probe(r, forward.out[0]);
        dx_p[i] = rig_probe(r, backward.out[0]);
        rig_prepare(r);
    }
    pair_write(p, d, x);
    pair_write(p, d, dy);
    pair_run(p);
    pair_compare(p, "y", BOTH(y_p), terms);
    pair_compare(p, "dx", BOTH(dx_p), terms);
    pair_free(p);
}

/* ---- the largest of each window */

typedef struct largest {
    kolo_shape in, out;
    kolo_window window;
    int x, dy, y[2], dx[2];
} largest;

static void build_largest(pair *p, largest *m)
{
    for (int i = 0; i < 2; i++) {
        rig *r = p->r[i];
        m->x = rig_input(r, m->in);
        m->dy = rig_input(r, m->out);
        int y = rig_value(r, KOLO_VALUE_ACTIVATION, m->out), where = rig_value(r, KOLO_VALUE_WORKSPACE, m->out);
        int dx = rig_value(r, KOLO_VALUE_ACTIVATION, m->in);
        rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D, .in = {m->x}, .out = {y, where}, .window = m->window});
        rig_op(r,
               (kolo_op){.kind = KOLO_OP_MAX_POOL2D_BACKWARD, .in = {m->dy, where}, .out = {dx}, .window = m->window});
        m->y[i] = rig_probe(r, y);
        m->dx[i] = rig_probe(r, dx);
        rig_prepare(r);
    }
}

static void roll_largest(pair *p, dice *d, largest *m)
{
    bool same = roll_coin(d), tiled = roll_coin(d), global = roll_between(d, 0, 5) == 0;
    m->in = (kolo_shape){3, {roll_between(d, 1, 12), roll_between(d, 1, 12), roll_between(d, 1, 36)}};
    if (roll_coin(d)) m->in.dim[2] = 8 * roll_between(d, 1, 5);
    int kh = roll_between(d, 1, m->in.dim[0] < 4 ? m->in.dim[0] : 4);
    int kw = roll_between(d, 1, m->in.dim[1] < 4 ? m->in.dim[1] : 4);
    if (roll_between(d, 0, 9) == 0) { /* a window of more places than a byte has */
        m->in = (kolo_shape){3, {17, 16, 3}};
        kh = 17, kw = 16;
    }
    if (global) kh = m->in.dim[0], kw = m->in.dim[1];
    m->window = rig_window(m->in, kh, kw, tiled ? kh : roll_between(d, 1, 4), tiled ? kw : roll_between(d, 1, 4), same,
                           &m->out, m->in.dim[2]);
    build_largest(p, m);
}

static void max_case(dice *d, int number)
{
    pair p = pair_new(d, "max_pool2d", number);
    largest m;
    roll_largest(&p, d, &m);
    pair_write(&p, d, m.x);
    pair_write(&p, d, m.dy);
    pair_run(&p);
    pair_compare(&p, "y", BOTH(m.y), 1);
    pair_compare(&p, "dx", BOTH(m.dx), m.window.kernel[0] * m.window.kernel[1]);
    pair_free(&p);
}

/* Every fourth x is no number: y is none where the reference's is, and dy goes where the reference takes it. */
static void max_of_none_case(dice *d, int number)
{
    pair p = pair_new(d, "max_pool2d of NaN", number);
    largest m;
    p.exact = true;
    roll_largest(&p, d, &m);
    float *x = numbers(d, rig_count(p.r[0], m.x), 8);
    for (int64_t i = 0; i < rig_count(p.r[0], m.x); i++)
        if (roll_between(d, 0, 3) == 0) x[i] = NAN;
    for (int i = 0; i < 2; i++) rig_write(p.r[i], m.x, x);
    pair_write(&p, d, m.dy);
    pair_run(&p);
    double *wanted = rig_read(p.r[0], m.y[0]), *got = rig_read(p.r[1], m.y[1]);
    for (int64_t i = 0; i < rig_count(p.r[0], m.y[0]); i++)
        assert_true(isnan(wanted[i]) ? isnan(got[i]) : wanted[i] == got[i]);
    pair_compare(&p, "dx", BOTH(m.dx), 1);
    free(x);
    free(wanted);
    free(got);
    pair_free(&p);
}

/* ---- means, and what is moved */

static void average_case(dice *d, int number)
{
    pair p = pair_new(d, "average_pool2d", number);
    kolo_shape in = roll_image(d, 12), out;
    bool global = roll_between(d, 0, 3) == 0, same = !global && roll_coin(d);
    int kh = global ? in.dim[0] : roll_between(d, 1, in.dim[0] < 4 ? in.dim[0] : 4);
    int kw = global ? in.dim[1] : roll_between(d, 1, in.dim[1] < 4 ? in.dim[1] : 4);
    kolo_window window = rig_window(in, kh, kw, roll_between(d, 1, 5), roll_between(d, 1, 5), same, &out, in.dim[2]);
    p.exact = false; /* a mean of three is no eighth; the nearest bfloat16 may be another: a bound of 2^-7 */
    both_ways(&p, d, (kolo_op){.kind = KOLO_OP_AVERAGE_POOL2D, .window = window},
              (kolo_op){.kind = KOLO_OP_AVERAGE_POOL2D_BACKWARD, .window = window}, in, out, 0);
}

static void padding_case(dice *d, int number)
{
    pair p = pair_new(d, "zero_padding2d", number);
    kolo_shape in = roll_image(d, 8), out = in;
    kolo_window window = {.before = {roll_between(d, 0, 3), roll_between(d, 0, 3)},
                          .after = {roll_between(d, 0, 3), roll_between(d, 0, 3)}};
    for (int axis = 0; axis < 2; axis++) out.dim[axis] += window.before[axis] + window.after[axis];
    both_ways(&p, d, (kolo_op){.kind = KOLO_OP_PAD2D, .window = window},
              (kolo_op){.kind = KOLO_OP_CROP2D, .window = window}, in, out, 1);
}

static void upsampling_case(dice *d, int number)
{
    pair p = pair_new(d, "upsampling2d", number);
    kolo_shape in = roll_image(d, 6), out = in;
    kolo_window window = {.kernel = {roll_between(d, 1, 4), roll_between(d, 1, 4)}};
    for (int axis = 0; axis < 2; axis++) out.dim[axis] *= window.kernel[axis];
    both_ways(&p, d, (kolo_op){.kind = KOLO_OP_UPSAMPLE2D, .window = window},
              (kolo_op){.kind = KOLO_OP_UPSAMPLE2D_BACKWARD, .window = window}, in, out, 16);
}

/* ---- several inputs */

static kolo_shape roll_shape(dice *d)
{
    kolo_shape shape = {roll_between(d, 1, 4), {0}};
    for (int axis = 0; axis < shape.rank; axis++) shape.dim[axis] = roll_between(d, 1, 6);
    return roll_coin(d) ? roll_image(d, 6) : shape;
}

static void concatenate_case(dice *d, int number)
{
    static const int lengths[] = {1, 3, 8, 16, 20, 32};
    pair p = pair_new(d, "concatenate", number);
    kolo_shape whole = roll_shape(d), part[8];
    int axis = roll_between(d, 0, whole.rank - 1), inputs = roll_between(d, 2, 8), x[8], y, dy = 0, y_p[2], dx_p[8][2];
    bool blocks = axis == 2 && roll_coin(d), tiled[8];
    whole.dim[axis] = 0;
    for (int i = 0; i < inputs; i++) {
        part[i] = whole;
        part[i].dim[axis] = blocks ? 16 * roll_between(d, 1, 3) : lengths[roll_between(d, 0, axis == 2 ? 5 : 1)];
        tiled[i] = whole.rank == 3 && (blocks || roll_coin(d));
    }
    for (int i = 0; i < inputs; i++) whole.dim[axis] += part[i].dim[axis];
    bool dy_tiled = whole.rank == 3 && roll_coin(d);
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        kolo_op join = {.kind = KOLO_OP_CONCATENATE, .axis = axis}, cut = {.kind = KOLO_OP_SLICE, .axis = axis};
        for (int n = 0; n < 8; n++) join.in[n] = n < inputs ? (x[n] = rig_input(r, part[n])) : -1;
        cut.in[0] = dy = rig_input(r, whole);
        join.out[0] = y = rig_value(r, KOLO_VALUE_ACTIVATION, whole);
        rig_op(r, join);
        for (int n = 0; n < inputs; cut.first += part[n++].dim[axis]) {
            cut.out[0] = dx_p[n][i] = rig_value(r, KOLO_VALUE_ACTIVATION, part[n]);
            rig_op(r, cut);
            if (tiled[n]) add_reader(r, x[n]);
        }
        if (dy_tiled) add_reader(r, dy);
        y_p[i] = rig_probe(r, y);
        for (int n = 0; n < inputs; n++) dx_p[n][i] = rig_probe(r, dx_p[n][i]);
        rig_prepare(r);
    }
    p.exact = true; /* nothing is computed */
    for (int n = 0; n < inputs; n++) pair_write(&p, d, x[n]);
    pair_write(&p, d, dy);
    pair_run(&p);
    pair_compare(&p, "y", BOTH(y_p), 1);
    for (int n = 0; n < inputs; n++) pair_compare(&p, "dx", BOTH(dx_p[n]), 1);
    pair_free(&p);
}

static void multiply_case(dice *d, int number)
{
    pair p = pair_new(d, "multiply", number);
    kolo_shape a = roll_shape(d), b = a;
    bool pixel = a.rank == 3 && roll_coin(d), tiled = a.rank == 3 && roll_coin(d), dy_tiled = tiled && roll_coin(d);
    if (pixel) b = (kolo_shape){3, {1, 1, a.dim[2]}};
    int x1 = 0, x2 = 0, dy = 0, y_p[2], dx1_p[2], dx2_p[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x1 = rig_input(r, a);
        x2 = rig_input(r, b);
        dy = rig_input(r, a);
        y_p[i] = rig_value(r, KOLO_VALUE_ACTIVATION, a);
        dx1_p[i] = rig_value(r, KOLO_VALUE_ACTIVATION, a);
        dx2_p[i] = rig_value(r, KOLO_VALUE_ACTIVATION, b);
        rig_op(r, (kolo_op){.kind = KOLO_OP_MULTIPLY, .in = {x1, x2}, .out = {y_p[i]}});
        rig_op(r, (kolo_op){.kind = KOLO_OP_MULTIPLY, .in = {dy, x2}, .out = {dx1_p[i]}});
        rig_op(r,
               (kolo_op){.kind = pixel ? KOLO_OP_MULTIPLY_SUM : KOLO_OP_MULTIPLY, .in = {dy, x1}, .out = {dx2_p[i]}});
        if (tiled) add_reader(r, x1);
        if (dy_tiled) add_reader(r, dy);
        y_p[i] = rig_probe(r, y_p[i]);
        dx1_p[i] = rig_probe(r, dx1_p[i]);
        dx2_p[i] = rig_probe(r, dx2_p[i]);
        rig_prepare(r);
    }
    if (p.precision == KOLO_MIXED_BF16) p.exact = false; /* a sum of 64ths has too many digits */
    pair_write(&p, d, x1);
    pair_write(&p, d, x2);
    pair_write(&p, d, dy);
    pair_run(&p);
    pair_compare(&p, "y", BOTH(y_p), 1);
    pair_compare(&p, "dx1", BOTH(dx1_p), 1);
    pair_compare(&p, "dx2", BOTH(dx2_p), 36);
    pair_free(&p);
}

#define TEST(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check(name##_case, __LINE__);                                                                                  \
    }
TEST(max)
TEST(max_of_none)
TEST(average)
TEST(padding)
TEST(upsampling)
TEST(concatenate)
TEST(multiply)

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_max),      cmocka_unit_test(test_max_of_none), cmocka_unit_test(test_average),
        cmocka_unit_test(test_padding),  cmocka_unit_test(test_upsampling),  cmocka_unit_test(test_concatenate),
        cmocka_unit_test(test_multiply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
