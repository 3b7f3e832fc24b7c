/* Normalisation of the CUDA backend held against the reference backend's doubles, where tests/ext/backend/ does not
 * reach: batches whose sums many blocks share, evaluation, binary16, samples that do not count whatever lies in them,
 * the same bits at every run, x a thousand times as far from zero as from one another; and layer normalisation, of rows
 * that a warp holds, a block holds, or nobody.
 *
 * Bounds: what is float32 may differ by 1e-5 of the largest, as of sums of that many terms; results in bfloat16 by one
 * unit of the last place, 2^-8, and in binary16 by 2^-10 (pair.h). Of eighths sums of x and of dy are exact, and so the
 * mean and dβ must be the same to the last bit. */
#include "ext/backend/rig.h"
#include "ext/backend/tested.h"

static const kolo_backend *tested;

static const kolo_precision precisions[] = {KOLO_FLOAT32, KOLO_MIXED_BF16, KOLO_MIXED_FP16};

/* A spec for a case; [0] is of the reference, [1] of the tested backend. */
typedef struct spec {
    kolo_precision precision;
    kolo_shape shape;
    int microbatch, samples;
    bool scale, offset, need_dx, relu, exact;
    float shift; /* of x */
} spec;

typedef struct built {
    rig *r;
    int x, dy, scale[3], offset[3], dscale, doffset, dmean, dvariance, y, dx;
} built;

static double bound_of(const spec *w, bool gradient)
{
    if (w->precision == KOLO_MIXED_BF16 && !gradient) return 0x1p-8;
    if (w->precision == KOLO_MIXED_FP16 && !gradient) return 0x1p-10;
    return 1e-5;
}

static void compare(const built b[2], const spec *w, const char *what, int value[2], double bound)
{
    if (value[0] < 0) return;
    double *wanted = rig_read(b[0].r, value[0]), *got = rig_read(b[1].r, value[1]), distance = 0, largest = 1;
    for (int64_t i = 0; i < rig_count(b[0].r, value[0]); i++) {
        distance = fmax(distance, isfinite(got[i]) ? fabs(got[i] - wanted[i]) : INFINITY);
        largest = fmax(largest, fabs(wanted[i]));
    }
    if (!(distance <= bound * largest))
        print_error("{%d, %d, %d}, microbatch %d (%d count), precision %d, shift %g: %s differs by %g of %g\n",
                    w->shape.dim[0], w->shape.dim[1], w->shape.dim[2], w->microbatch, w->samples, (int)w->precision,
                    (double)w->shift, what, distance, largest);
    assert_true(distance <= bound * largest);
    free(wanted);
    free(got);
}
#define COMPARE(what, member, bound) compare(b, w, what, (int[]){b[0].member, b[1].member}, bound)

/* To both rigs, and what pads the microbatch is something else in each. */
static void write_rows(const built b[2], const spec *w, dice *d, int value, float shift, bool zeros)
{
    int64_t count = rig_count(b[0].r, value), counting = count / w->microbatch * w->samples;
    float *values = numbers(d, count, w->exact ? 8 : 0);
    for (int64_t i = 0; i < counting; i++) values[i] += shift;
    for (int i = 0; i < 2; i++) {
        for (int64_t k = counting; k < count; k++) values[k] = zeros ? 0 : (float)(i + 1);
        rig_write(b[i].r, value, values);
    }
    free(values);
}

static void write_weights(const built b[2], dice *d, const int *values, int copies, float shift)
{
    if (values[0] < 0) return;
    float *drawn = numbers(d, rig_count(b[0].r, values[0]), 0);
    for (int64_t i = 0; i < rig_count(b[0].r, values[0]); i++) drawn[i] += i % 2 ? -shift : shift;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < copies; k++)
            if (b[i].r->plan.values[values[k]].bytes > 0) rig_write(b[i].r, values[k], drawn); /* an operation's */
    free(drawn);
}

static int weights(rig *r, bool wanted, int number, int width)
{
    return wanted ? kolo_plan_weights(&r->plan, number, (kolo_shape){1, {width}}) : -1;
}
static int gradient(rig *r, bool wanted, int number, int width)
{
    return wanted ? kolo_plan_gradient(&r->plan, number, (kolo_shape){1, {width}}) : -1;
}
static int width_of(const spec *w)
{
    return w->shape.dim[w->shape.rank - 1];
}

static built start(const kolo_backend *backend, const spec *w)
{
    built b = {.r = rig_new(backend, w->precision, w->microbatch), .dmean = -1, .dvariance = -1, .dx = -1};
    b.x = rig_input(b.r, w->shape);
    b.dy = rig_input(b.r, w->shape);
    for (int i = 0; i < 3; i++) b.scale[i] = weights(b.r, w->scale, 1, width_of(w));
    for (int i = 0; i < 3; i++) b.offset[i] = weights(b.r, w->offset, 2, width_of(w));
    b.dscale = gradient(b.r, w->scale, 1, width_of(w));
    b.doffset = gradient(b.r, w->offset, 2, width_of(w));
    b.y = rig_value(b.r, KOLO_VALUE_ACTIVATION, w->shape);
    if (w->need_dx) b.dx = rig_value(b.r, KOLO_VALUE_ACTIVATION, w->shape);
    return b;
}

static void finish(built *b, const spec *w)
{
    b->y = rig_probe(b->r, b->y);
    if (w->need_dx) b->dx = rig_probe(b->r, b->dx);
    rig_prepare(b->r);
    b->r->call.samples = w->samples;
}

static void run_both(const built b[2])
{
    for (int i = 0; i < 2; i++) rig_run(b[i].r);
}

static void free_both(const built b[2])
{
    for (int i = 0; i < 2; i++) rig_free(b[i].r);
}

/* What pads the microbatch comes out as zeros. */
static void check_padding(const built *b, const spec *w, int value)
{
    if (value < 0) return;
    double *values = rig_read(b->r, value);
    for (int64_t i = kolo_shape_count(w->shape) * w->samples; i < rig_count(b->r, value); i++)
        assert_true(values[i] == 0);
    free(values);
}

/* Again: not a bit is another. */
static void check_again(const built *b)
{
    const int values[] = {b->y, b->dx, b->dscale, b->doffset, b->dmean, b->dvariance};
    double *first[6];
    for (int i = 0; i < 6; i++) first[i] = values[i] < 0 ? NULL : rig_read(b->r, values[i]);
    rig_run(b->r);
    for (int i = 0; i < 6; i++) {
        if (!first[i]) continue;
        double *second = rig_read(b->r, values[i]);
        assert_memory_equal(first[i], second, (size_t)rig_count(b->r, values[i]) * sizeof *second);
        free(first[i]);
        free(second);
    }
}

/* ---- batch normalisation */

static void build_batch_norm(built *b, const spec *w)
{
    rig *r = b->r;
    int channels = width_of(w);
    int moments = rig_value(r, KOLO_VALUE_PARTIAL, (kolo_shape){1, {2 * channels + 1}});
    int sums = rig_value(r, KOLO_VALUE_PARTIAL, (kolo_shape){1, {2 * channels}});
    b->dmean = gradient(r, true, 3, channels);
    b->dvariance = gradient(r, true, 4, channels);
    kolo_activation activation = w->relu ? KOLO_RELU : KOLO_LINEAR;
    rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM_MOMENTS, .in = {b->x}, .out = {moments}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM,
                        .in = {b->x, moments, b->scale[0], b->offset[0], -1, -1},
                        .out = {b->y, b->dmean, b->dvariance},
                        .epsilon = 1e-3,
                        .activation = activation});
    rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM_SUMS,
                        .in = {b->dy, b->x, moments, b->scale[1], b->offset[1]},
                        .out = {sums, b->dscale, b->doffset},
                        .epsilon = 1e-3,
                        .activation = activation});
    if (!w->need_dx) return;
    rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM_BACKWARD,
                        .in = {b->dy, b->x, moments, b->scale[2], b->offset[2], sums},
                        .out = {b->dx},
                        .epsilon = 1e-3,
                        .activation = activation});
}

static void batch_norm_case(dice *d, const spec *w)
{
    built b[2] = {start(&kolo_reference_backend, w), start(tested, w)};
    for (int i = 0; i < 2; i++) {
        build_batch_norm(&b[i], w);
        finish(&b[i], w);
    }
    write_rows(b, w, d, b[0].x, w->shift, false);
    write_rows(b, w, d, b[0].dy, 0, false);
    write_weights(b, d, b[0].scale, 3, 0);
    write_weights(b, d, b[0].offset, 3, w->relu ? 40 : 0); /* no mask may hang on rounding */
    run_both(b);
    if (w->samples > 0) {
        COMPARE("y", y, bound_of(w, false));
        COMPARE("dx", dx, 10 * bound_of(w, false));
        COMPARE("dgamma", dscale, 1e-5);
        COMPARE("dbeta", doffset, w->exact ? 0 : 1e-6);
        COMPARE("mean", dmean, w->exact ? 0 : 1e-6);
        COMPARE("variance", dvariance, 1e-6);
    }
    check_padding(&b[1], w, b[1].y);
    check_padding(&b[1], w, b[1].dx);
    check_again(&b[1]);
    if (w->samples == 0) {
        double *mean = rig_read(b[1].r, b[1].dmean), *gamma = w->scale ? rig_read(b[1].r, b[1].dscale) : NULL;
        for (int c = 0; c < width_of(w); c++) assert_true(mean[c] == 0 && (!gamma || gamma[c] == 0));
        free(mean);
        free(gamma);
    }
    free_both(b);
}

static void test_batch_norm(void **state)
{
    (void)state;
    static const int counts[] = {1, 3, 16, 17, 32, 40, 64, 72, 272};
    dice d = {21};
    for (int n = 0; n < 54; n++) {
        int channels = counts[n % 9], side = channels > 64 ? roll_between(&d, 1, 9) : roll_between(&d, 1, 33);
        spec w = {.precision = precisions[n / 9 % 3],
                  .shape = {3, {side, roll_between(&d, 1, side), channels}},
                  .microbatch = roll_between(&d, 1, 3),
                  .scale = roll_coin(&d),
                  .offset = roll_coin(&d),
                  .need_dx = roll_between(&d, 0, 3) > 0,
                  .relu = roll_coin(&d),
                  .exact = roll_coin(&d)};
        w.samples = roll_between(&d, 0, 5) == 0 ? 0 : roll_between(&d, 1, w.microbatch);
        if (w.relu) w.offset = true;
        if (w.precision == KOLO_FLOAT32 && roll_coin(&d)) w.shift = 1000;
        batch_norm_case(&d, &w);
    }
}

/* By the running mean and variance, in a plan not trained. */
static void test_evaluation(void **state)
{
    (void)state;
    dice d = {22};
    for (int n = 0; n < 12; n++) {
        spec shape = {.precision = precisions[n % 3],
                      .shape = {2, {roll_between(&d, 1, 40), roll_between(&d, 1, 40)}},
                      .microbatch = roll_between(&d, 1, 4),
                      .scale = true},
             *w = &shape;
        built b[2] = {start(&kolo_reference_backend, w), start(tested, w)};
        shape.samples = shape.microbatch;
        for (int i = 0; i < 2; i++) {
            b[i].dscale = b[i].doffset = -1;
            b[i].scale[1] = weights(b[i].r, true, 3, width_of(w));
            b[i].scale[2] = weights(b[i].r, true, 4, width_of(w));
            rig_op(b[i].r, (kolo_op){.kind = KOLO_OP_BATCH_NORM,
                                     .in = {b[i].x, -1, b[i].scale[0], -1, b[i].scale[1], b[i].scale[2]},
                                     .out = {b[i].y, -1, -1},
                                     .epsilon = 1e-3});
            finish(&b[i], w);
        }
        write_rows(b, w, &d, b[0].x, 0, false);
        write_rows(b, w, &d, b[0].dy, 0, false);
        for (int k = 0; k < 2; k++) write_weights(b, &d, (int[]){b[0].scale[k]}, 1, 0);
        float *variance = numbers(&d, width_of(w), 0);
        for (int c = 0; c < width_of(w); c++) variance[c] = fabsf(variance[c]) + 0.25f;
        for (int i = 0; i < 2; i++) rig_write(b[i].r, b[i].scale[2], variance);
        free(variance);
        run_both(b);
        COMPARE("y", y, bound_of(w, false));
        free_both(b);
    }
}

/* ---- layer normalisation */

static void layer_norm_case(dice *d, const spec *w)
{
    built b[2] = {start(&kolo_reference_backend, w), start(tested, w)};
    for (int i = 0; i < 2; i++) {
        rig_op(b[i].r, (kolo_op){.kind = KOLO_OP_LAYER_NORM,
                                 .in = {b[i].x, b[i].scale[0], b[i].offset[0]},
                                 .out = {b[i].y},
                                 .epsilon = 1e-3});
        rig_op(b[i].r, (kolo_op){.kind = KOLO_OP_LAYER_NORM_BACKWARD,
                                 .in = {b[i].dy, b[i].x, w->need_dx ? b[i].scale[1] : -1},
                                 .out = {b[i].dx, b[i].dscale, b[i].doffset},
                                 .epsilon = 1e-3});
        finish(&b[i], w);
    }
    write_rows(b, w, d, b[0].x, w->shift, true);
    write_rows(b, w, d, b[0].dy, 0, true);
    write_weights(b, d, b[0].scale, 2, 0);
    write_weights(b, d, b[0].offset, 1, 0);
    run_both(b);
    COMPARE("y", y, bound_of(w, false));
    COMPARE("dx", dx, 2 * bound_of(w, false));
    COMPARE("dscale", dscale, 1e-5);
    COMPARE("doffset", doffset, w->exact ? 0 : 1e-6);
    check_padding(&b[1], w, b[1].dx);
    check_again(&b[1]);
    free_both(b);
}

static void test_layer_norm(void **state)
{
    (void)state;
    static const int widths[] = {1,   3,   17,   32,   33,   64,   100,  128,  160,  250,  256,  264, 500,
                                 513, 768, 1000, 1024, 1032, 1025, 1500, 2048, 2056, 4096, 4104, 5000};
    dice d = {23};
    for (int n = 0; n < 75; n++) {
        int width = widths[n / 3];
        spec w = {.precision = precisions[n % 3],
                  .shape = {2, {width < 300 ? roll_between(&d, 1, 40) : roll_between(&d, 1, 5), width}},
                  .microbatch = roll_between(&d, 1, 3),
                  .scale = roll_coin(&d),
                  .offset = roll_coin(&d),
                  .need_dx = roll_between(&d, 0, 3) > 0,
                  .exact = roll_coin(&d)};
        w.samples = roll_between(&d, 0, w.microbatch);
        if (w.precision == KOLO_FLOAT32 && roll_coin(&d)) w.shift = 1000;
        layer_norm_case(&d, &w);
    }
}

int main(void)
{
    tested = tested_backend();
    if (!tested) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_layer_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
