/* Dropout drops the elements that core/random.h says, in every backend, layout and microbatch. */
#include "rig.h"
#include "tested.h"

#include "core/random.h"

enum { microbatch = 4 };

static const kolo_backend *backends[2] = {&kolo_reference_backend};

/* y and dx of a dropout of ones. blocked: behind a convolution with no weights but a bias of one, so that the elements
 * lie in blocks of channels. */
static void drop_ones(const kolo_backend *backend, kolo_precision precision, kolo_shape shape, bool blocked,
                      double rate, double **y_read, double **dx_read)
{
    kolo_window pixel = {.kernel = {1, 1}, .stride = {1, 1}};
    int channels = shape.dim[shape.rank - 1], k = -1, b = -1;
    rig *r = rig_new(backend, precision, microbatch);
    int x = rig_input(r, shape), dy = rig_input(r, shape), ones = x;
    if (blocked) {
        k = kolo_plan_weights(&r->plan, 0, (kolo_shape){4, {1, 1, channels, channels}});
        b = kolo_plan_weights(&r->plan, 1, (kolo_shape){1, {channels}});
        ones = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
        rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D, .in = {x, k, b}, .out = {ones}, .window = pixel});
    }
    int y = rig_value(r, KOLO_VALUE_ACTIVATION, shape), mask = rig_value(r, KOLO_VALUE_WORKSPACE, shape);
    int dx = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
    rig_op(r, (kolo_op){.kind = KOLO_OP_DROPOUT, .layer = 5, .in = {ones}, .out = {y, mask}, .rate = rate});
    rig_op(r, (kolo_op){.kind = KOLO_OP_DROPOUT_BACKWARD, .layer = 5, .in = {dy, mask}, .out = {dx}, .rate = rate});
    int y_p = rig_probe(r, y), dx_p = rig_probe(r, dx);
    rig_prepare(r);
    int64_t elements = rig_count(r, x);
    float *one = malloc((size_t)elements * sizeof *one),
          *none = calloc((size_t)channels * (size_t)channels, sizeof *none);
    assert_true(one && none);
    for (int64_t i = 0; i < elements; i++) one[i] = 1;
    rig_write(r, x, one);
    rig_write(r, dy, one);
    if (blocked) rig_write(r, k, none);
    if (blocked) rig_write(r, b, one);
    rig_run(r);
    *y_read = rig_read(r, y_p);
    *dx_read = rig_read(r, dx_p);
    rig_free(r);
    free(one);
    free(none);
}

/* As in the header, element by element; rig's seed, step and first sample. */
static bool is_kept(int64_t element, int sample, double rate)
{
    uint64_t key = kolo_dropout_key(7, 5, 3);
    uint32_t bits = kolo_philox(key, (uint64_t)element / 4, (uint64_t)(64 + sample)).word[element % 4];
    return bits >= kolo_dropout_threshold(rate);
}

static void check(const kolo_backend *backend, kolo_precision precision, kolo_shape shape, bool blocked, double rate)
{
    double *y, *dx, scale = 1 / (1 - rate);
    int64_t elements = kolo_shape_count(shape);
    drop_ones(backend, precision, shape, blocked, rate, &y, &dx);
    for (int64_t i = 0; i < microbatch * elements; i++) {
        double wanted = is_kept(i % elements, (int)(i / elements), rate) ? scale : 0;
        assert_true(fabs(y[i] - wanted) <= scale * 0x1p-8);
        assert_true((y[i] == 0) == (wanted == 0));
        assert_true(dx[i] == y[i]);
    }
    free(y);
    free(dx);
}

static void test_masks(void **state)
{
    (void)state;
    dice d = {21};
    for (int n = 0; n < 120; n++) {
        const kolo_backend *backend = backends[n % 2];
        kolo_precision precision = n % 4 < 2 ? KOLO_FLOAT32 : KOLO_MIXED_BF16;
        kolo_shape shape = {1, {roll_between(&d, 1, 300)}};
        bool blocked = roll_coin(&d);
        if (blocked) {
            shape = (kolo_shape){3, {roll_between(&d, 1, 5), roll_between(&d, 1, 5), roll_between(&d, 1, 40)}};
        }
        if (backend->open(precision) != KOLO_OK) {
            kolo_failure_take();
            precision = KOLO_FLOAT32;
        }
        check(backend, precision, shape, blocked, 0.01 * roll_between(&d, 1, 99));
    }
}

/* Of 4·20,000 elements the number kept is within five standard deviations of what is expected. */
static void test_rate(void **state)
{
    (void)state;
    const double rates[] = {0.1, 0.25, 0.5, 0.9};
    for (int i = 0; i < 4; i++) {
        double *y, *dx, kept = 0, n = microbatch * 20000.0;
        drop_ones(backends[1], KOLO_FLOAT32, (kolo_shape){1, {20000}}, false, rates[i], &y, &dx);
        for (int e = 0; e < microbatch * 20000; e++) kept += y[e] != 0;
        assert_true(fabs(kept - n * (1 - rates[i])) < 5 * sqrt(n * rates[i] * (1 - rates[i])));
        free(y);
        free(dx);
    }
}

int main(void)
{
    backends[1] = tested_backend();
    if (!backends[1]) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks), cmocka_unit_test(test_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
