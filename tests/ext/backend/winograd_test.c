/* Winograd's algorithm (backend/onednn/winograd.c) in the oneDNN backend: how far it is from doubles, that it is used
 * and can be turned off, and that samples stay apart.
 *
 * The bound is that of pair.h for numbers that are not exact: 1e-5 of the largest element. Seen: 2e-6, the direct
 * algorithm 5e-7. Winograd's numbers are never exact, eighths are not either.
 */
#include "rig.h"

#include "core/plugin.h"

static const kolo_backend *onednn;

#define CASES 24

typedef struct drawn {
    int microbatch, channels, filters, height, width;
    bool same, relu, pooled; /* pooled: y is what a 2×2 pooling makes of it */
} drawn;

typedef struct numbers_of {
    float *x, *dy, *kernel, *bias;
} numbers_of;

typedef struct results {
    double *y, *dx, *dkernel, *dbias;
    int64_t y_count, dx_count, dkernel_count, dbias_count;
} results;

typedef struct values {
    int x, dy, k, k_back, b, y, dx, dk, db;
} values;

static const drawn usual = {.microbatch = 8, .channels = 32, .filters = 32, .height = 16, .width = 16, .same = true};

static kolo_shape in_of(const drawn *w)
{
    return (kolo_shape){3, {w->height, w->width, w->channels}};
}

static values plan_of(rig *r, const drawn *w)
{
    values v;
    kolo_shape out, kernel = {4, {3, 3, w->channels, w->filters}}, biases = {1, {w->filters}};
    kolo_window window = rig_window(in_of(w), 3, 3, 1, 1, w->same, &out, w->filters);
    v.x = rig_input(r, in_of(w));
    v.dy = rig_input(r, out);
    v.k = kolo_plan_weights(&r->plan, 0, kernel);
    v.b = kolo_plan_weights(&r->plan, 1, biases);
    v.k_back = kolo_plan_weights(&r->plan, 0, kernel);
    v.y = rig_value(r, KOLO_VALUE_ACTIVATION, out);
    v.dx = rig_value(r, KOLO_VALUE_ACTIVATION, in_of(w));
    v.dk = kolo_plan_gradient(&r->plan, 0, kernel);
    v.db = kolo_plan_gradient(&r->plan, 1, biases);
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D,
                        .in = {v.x, v.k, v.b},
                        .out = {v.y},
                        .window = window,
                        .activation = w->relu ? KOLO_RELU : KOLO_LINEAR});
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D_BACKWARD,
                        .in = {v.dy, -1, v.x, v.k_back},
                        .out = {v.dx, v.dk, v.db},
                        .window = window});
    return v;
}

static double *take(rig *r, int value, int64_t *count)
{
    *count = rig_count(r, value);
    return rig_read(r, value);
}

static int pooled(rig *r, int value)
{
    kolo_shape out;
    kolo_window window =
        rig_window(r->plan.values[value].shape, 2, 2, 2, 2, false, &out, r->plan.values[value].shape.dim[2]);
    int y = rig_value(r, KOLO_VALUE_ACTIVATION, out);
    rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D, .in = {value}, .out = {y, -1}, .window = window});
    return y;
}

/* With a relu the way back is that of a layer without: no sign shall hang on rounding. */
static results run(const kolo_backend *backend, const drawn *w, const numbers_of *n)
{
    rig *r = rig_new(backend, KOLO_FLOAT32, w->microbatch);
    values v = plan_of(r, w);
    int y = rig_probe(r, w->pooled ? pooled(r, v.y) : v.y), dx = rig_probe(r, v.dx);
    rig_prepare(r);
    rig_write(r, v.x, n->x);
    rig_write(r, v.dy, n->dy);
    rig_write(r, v.k, n->kernel);
    rig_write(r, v.k_back, n->kernel);
    rig_write(r, v.b, n->bias);
    rig_run(r);
    results result;
    result.y = take(r, y, &result.y_count);
    result.dx = take(r, dx, &result.dx_count);
    result.dkernel = take(r, v.dk, &result.dkernel_count);
    result.dbias = take(r, v.db, &result.dbias_count);
    rig_free(r);
    return result;
}

static results run_direct(const drawn *w, const numbers_of *n)
{
    setenv("KOLO_WINOGRAD", "0", 1);
    results direct = run(onednn, w, n);
    unsetenv("KOLO_WINOGRAD");
    return direct;
}

static void results_free(results *r)
{
    free(r->y);
    free(r->dx);
    free(r->dkernel);
    free(r->dbias);
}

static numbers_of draw_numbers(dice *d, const drawn *w)
{
    int64_t rest = w->same ? 0 : 2, outputs = w->microbatch * (w->height - rest) * (w->width - rest) * w->filters;
    return (numbers_of){.x = numbers(d, (int64_t)w->microbatch * w->height * w->width * w->channels, 0),
                        .dy = numbers(d, outputs, 0),
                        .kernel = numbers(d, (int64_t)9 * w->channels * w->filters, 0),
                        .bias = numbers(d, w->filters, 0)};
}

static void numbers_free(numbers_of *n)
{
    free(n->x);
    free(n->dy);
    free(n->kernel);
    free(n->bias);
}

/* ---- how far from doubles */

typedef struct furthest {
    double y, dx, dkernel, dbias;
} furthest;

static void widen(furthest *f, const results *got, const results *wanted)
{
    f->y = fmax(f->y, rig_distance(got->y, wanted->y, wanted->y_count));
    f->dx = fmax(f->dx, rig_distance(got->dx, wanted->dx, wanted->dx_count));
    f->dkernel = fmax(f->dkernel, rig_distance(got->dkernel, wanted->dkernel, wanted->dkernel_count));
    f->dbias = fmax(f->dbias, rig_distance(got->dbias, wanted->dbias, wanted->dbias_count));
}

static drawn draw(dice *d)
{
    static const int microbatches[] = {4, 6, 8, 16}, widths[] = {16, 17, 32, 48, 64};
    return (drawn){.microbatch = microbatches[roll_between(d, 0, 3)],
                   .channels = widths[roll_between(d, 0, 4)],
                   .filters = widths[roll_between(d, 0, 4)],
                   .height = roll_between(d, 8, 21),
                   .width = roll_between(d, 8, 21),
                   .same = roll_coin(d),
                   .relu = roll_coin(d),
                   .pooled = roll_coin(d)};
}

static void test_distance(void **state)
{
    (void)state;
    dice d = {51};
    furthest winograd = {0}, direct = {0};
    int used = 0;
    for (int i = 0; i < CASES; i++) {
        const drawn w = draw(&d);
        numbers_of n = draw_numbers(&d, &w);
        results wanted = run(&kolo_reference_backend, &w, &n), on = run(onednn, &w, &n), off = run_direct(&w, &n);
        used += memcmp(on.y, off.y, (size_t)on.y_count * sizeof *on.y) != 0;
        widen(&winograd, &on, &wanted);
        widen(&direct, &off, &wanted);
        results_free(&wanted);
        results_free(&on);
        results_free(&off);
        numbers_free(&n);
    }
    print_message("y dx dkernel dbias: %.2g %.2g %.2g %.2g; direct %.2g %.2g %.2g %.2g\n", winograd.y, winograd.dx,
                  winograd.dkernel, winograd.dbias, direct.y, direct.dx, direct.dkernel, direct.dbias);
    assert_true(winograd.y <= 1e-5 && winograd.dx <= 1e-5 && winograd.dkernel <= 1e-5 && winograd.dbias <= 1e-5);
    if (__builtin_cpu_supports("avx512f")) assert_true(used >= CASES / 2); /* oneDNN has it for such CPUs alone */
}

/* ---- used, and turned off */

static void test_switch(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx512f")) skip(); /* oneDNN has the algorithm for such CPUs alone */
    dice d = {52};
    numbers_of n = draw_numbers(&d, &usual);
    results on = run(onednn, &usual, &n), again = run(onednn, &usual, &n), off = run_direct(&usual, &n);
    size_t y = (size_t)on.y_count * sizeof *on.y, dk = (size_t)on.dkernel_count * sizeof *on.dkernel;
    assert_memory_equal(on.y, again.y, y);
    assert_memory_equal(on.dkernel, again.dkernel, dk);
    assert_true(memcmp(on.y, off.y, y) != 0);
    assert_true(memcmp(on.dx, off.dx, (size_t)on.dx_count * sizeof *on.dx) != 0);
    assert_true(memcmp(on.dkernel, off.dkernel, dk) != 0);
    results_free(&on);
    results_free(&again);
    results_free(&off);
    numbers_free(&n);
}

/* ---- relu, which a pooling may have to do */

static void test_relu(void **state)
{
    (void)state;
    dice d = {55};
    drawn w = usual;
    w.relu = w.pooled = true;
    numbers_of n = draw_numbers(&d, &w);
    for (int f = 0; f < w.filters; f++) n.bias[f] = f % 2 ? -100 : 0;
    results y = run(onednn, &w, &n);
    for (int64_t i = 0; i < y.y_count; i++) assert_true(i % w.filters % 2 ? y.y[i] == 0 : y.y[i] >= 0);
    results_free(&y);
    numbers_free(&n);
}

/* ---- samples apart */

static bool same_bits(const double *a, const double *b, int64_t count)
{
    return count == 0 || memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

/* `broken` where direct has NaN, and every other sample as it was. */
static void check_broken(const double *broken, const double *direct, const double *whole, int64_t count, int microbatch,
                         int sample)
{
    int64_t size = count / microbatch, first = sample * size;
    int64_t nans = 0;
    for (int64_t i = first; i < first + size; i++) {
        nans += isnan(direct[i]);
        if (isnan(direct[i])) assert_true(isnan(broken[i]));
    }
    assert_true(nans > 0);
    assert_true(same_bits(broken, whole, first));
    assert_true(same_bits(broken + first + size, whole + first + size, count - first - size));
}

static void break_one(float value, bool relu, int sample)
{
    dice d = {53};
    drawn w = usual;
    w.relu = relu;
    numbers_of n = draw_numbers(&d, &w);
    results whole = run(onednn, &w, &n);
    int64_t size = whole.y_count / w.microbatch;
    n.x[sample * (int64_t)w.height * w.width * w.channels + 1234] = value;
    n.dy[sample * size + 2345] = value;
    results broken = run(onednn, &w, &n), direct = run_direct(&w, &n);
    if (isnan(value)) {
        check_broken(broken.y, direct.y, whole.y, whole.y_count, w.microbatch, sample);
        check_broken(broken.dx, direct.dx, whole.dx, whole.dx_count, w.microbatch, sample);
    }
    int64_t rest = (sample + 1) * size;
    assert_true(same_bits(broken.y, whole.y, sample * size));
    assert_true(same_bits(broken.y + rest, whole.y + rest, whole.y_count - rest));
    for (int64_t i = 0; i < direct.dkernel_count; i++)
        if (!isfinite(direct.dkernel[i])) assert_true(!isfinite(broken.dkernel[i]));
    results_free(&whole);
    results_free(&broken);
    results_free(&direct);
    numbers_free(&n);
}

static void test_apart(void **state)
{
    (void)state;
    for (int sample = 0; sample < usual.microbatch; sample += 3) {
        break_one(NAN, false, sample);
        break_one(NAN, true, sample);
        break_one(INFINITY, false, sample);
    }
}

/* A sample whose dy is zero, which is what padding has, leaves nothing in the gradients, whatever its x. */
static void test_padding(void **state)
{
    (void)state;
    dice d = {54};
    numbers_of n = draw_numbers(&d, &usual);
    int64_t size = (int64_t)usual.height * usual.width * usual.channels, last = (usual.microbatch - 1) * size;
    for (int64_t i = 0; i < size; i++) n.dy[last + i] = 0;
    results one = run(onednn, &usual, &n);
    for (int64_t i = 0; i < size; i++) n.x[last + i] *= -3;
    results other = run(onednn, &usual, &n);
    assert_true(same_bits(one.dkernel, other.dkernel, one.dkernel_count));
    assert_true(same_bits(one.dbias, other.dbias, one.dbias_count));
    for (int64_t i = 0; i < size; i++) assert_true(one.dx[last + i] == 0);
    results_free(&one);
    results_free(&other);
    numbers_free(&n);
}

int main(void)
{
    const char *why;
    const kolo_plugin *plugin = kolo_plugin_load("onednn", &why);
    if (!plugin) print_error("the plugin does not load: %s\n", why);
    if (!plugin) return 1;
    onednn = plugin->backend;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance), cmocka_unit_test(test_switch),  cmocka_unit_test(test_relu),
        cmocka_unit_test(test_apart),    cmocka_unit_test(test_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
