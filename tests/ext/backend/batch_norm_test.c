/* Batch normalisation of the oneDNN backend held against the reference backend's doubles: random shapes, with the
 * layouts that convolutions leave (blocks of channels that are not full), microbatches that are not full, relu fused or
 * not.
 *
 * Sums are doubles in both and what comes of them is rounded once or twice: max|a − b| ≤ 1e-5 · max|b| in float32, and
 * two units of bfloat16's last place, 2^-7, where x and y are bfloat16. relu's mask would hang on rounding: with
 * it, beta takes each channel far to one side of zero (tests/ext/layers/batch_norm_test.c has masks of elements).
 */
#include "rig.h"

#include "tested.h"

static const kolo_backend *tested;

#define CASES 300

typedef struct shape_of_case {
    kolo_shape shape;
    bool conv, relu, gamma, beta;
    int samples;
    float shift; /* added to x: far from zero, as pixels of 0 … 255 are */
} shape_of_case;

typedef struct built {
    int x, dy, kernel, gamma[3], beta[3];
    int y, dx, dmean, dvariance, dgamma, dbeta;
} built;

static shape_of_case draw(dice *d, int microbatch)
{
    static const int counts[] = {1, 2, 3, 5, 8, 13, 16, 17, 24, 32, 48, 70};
    shape_of_case c = {.conv = roll_coin(d), .relu = roll_coin(d), .gamma = roll_coin(d), .beta = roll_coin(d)};
    int channels = counts[roll_between(d, 0, 11)], rank = c.conv ? 3 : roll_between(d, 1, 3);
    c.shape.rank = rank;
    for (int axis = 0; axis < rank - 1; axis++) c.shape.dim[axis] = roll_between(d, 1, 9);
    c.shape.dim[rank - 1] = channels;
    c.samples = roll_coin(d) ? microbatch : roll_between(d, 1, microbatch);
    c.shift = roll_coin(d) ? 0 : 100;
    return c;
}

static int weights(rig *r, bool wanted, int number, int channels)
{
    return wanted ? kolo_plan_weights(&r->plan, number, (kolo_shape){1, {channels}}) : -1;
}

static int gradient(rig *r, bool wanted, int number, int channels)
{
    return wanted ? kolo_plan_gradient(&r->plan, number, (kolo_shape){1, {channels}}) : -1;
}

/* x: the input, or a convolution of it whose kernel is the identity. */
static int build_x(rig *r, const shape_of_case *c, built *b)
{
    int channels = c->shape.dim[c->shape.rank - 1];
    b->x = rig_input(r, c->shape);
    if (!c->conv) return b->x;
    b->kernel = kolo_plan_weights(&r->plan, 0, (kolo_shape){4, {1, 1, channels, channels}});
    int y = rig_value(r, KOLO_VALUE_ACTIVATION, c->shape);
    kolo_window pixel = {.kernel = {1, 1}, .stride = {1, 1}};
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D, .in = {b->x, b->kernel, -1}, .out = {y}, .window = pixel});
    return y;
}

static void build(rig *r, const shape_of_case *c, built *b)
{
    int channels = c->shape.dim[c->shape.rank - 1];
    int x = build_x(r, c, b);
    b->dy = rig_input(r, c->shape);
    int moments = rig_value(r, KOLO_VALUE_PARTIAL, (kolo_shape){1, {2 * channels + 1}});
    int sums = rig_value(r, KOLO_VALUE_PARTIAL, (kolo_shape){1, {2 * channels}});
    for (int i = 0; i < 3; i++) b->gamma[i] = weights(r, c->gamma, 1, channels);
    for (int i = 0; i < 3; i++) b->beta[i] = weights(r, c->beta, 2, channels);
    b->dgamma = gradient(r, c->gamma, 1, channels);
    b->dbeta = gradient(r, c->beta, 2, channels);
    b->dmean = gradient(r, true, 3, channels);
    b->dvariance = gradient(r, true, 4, channels);
    int y = rig_value(r, KOLO_VALUE_ACTIVATION, c->shape), dx = rig_value(r, KOLO_VALUE_ACTIVATION, c->shape);
    kolo_op op = {.epsilon = 1e-3, .activation = c->relu ? KOLO_RELU : KOLO_LINEAR};
    kolo_op norm = op, back = op, add = op, moment = op;
    moment.kind = KOLO_OP_BATCH_NORM_MOMENTS;
    moment.in[0] = x;
    moment.out[0] = moments;
    norm.kind = KOLO_OP_BATCH_NORM;
    memcpy(norm.in, (int[]){x, moments, b->gamma[0], b->beta[0], -1, -1}, 6 * sizeof(int));
    memcpy(norm.out, (int[]){y, b->dmean, b->dvariance}, 3 * sizeof(int));
    add.kind = KOLO_OP_BATCH_NORM_SUMS;
    memcpy(add.in, (int[]){b->dy, x, moments, b->gamma[1], b->beta[1]}, 5 * sizeof(int));
    memcpy(add.out, (int[]){sums, b->dgamma, b->dbeta}, 3 * sizeof(int));
    back.kind = KOLO_OP_BATCH_NORM_BACKWARD;
    memcpy(back.in, (int[]){b->dy, x, moments, b->gamma[2], b->beta[2], sums}, 6 * sizeof(int));
    back.out[0] = dx;
    const kolo_op ops[] = {moment, norm, add, back};
    for (int i = 0; i < 4; i++) rig_op(r, ops[i]);
    b->y = rig_probe(r, y);
    b->dx = rig_probe(r, dx);
    rig_prepare(r);
    r->call.samples = c->samples;
}

static void write_both(rig *r[2], dice *d, int value, float shift)
{
    if (value < 0) return;
    float *values = numbers(d, rig_count(r[0], value), 0);
    for (int64_t i = 0; i < rig_count(r[0], value); i++) values[i] += shift;
    for (int i = 0; i < 2; i++) rig_write(r[i], value, values);
    free(values);
}

/* The same into the weights of all three operations; every other channel is shifted down. */
static void write_three(rig *r[2], dice *d, const int *values, float shift, bool alternating)
{
    if (values[0] < 0) return;
    float *drawn = numbers(d, rig_count(r[0], values[0]), 0);
    for (int64_t i = 0; i < rig_count(r[0], values[0]); i++) drawn[i] += alternating && i % 2 ? -shift : shift;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) rig_write(r[i], values[k], drawn);
    free(drawn);
}

static void write_identity(rig *r[2], const shape_of_case *c, const built *b)
{
    int channels = c->shape.dim[2];
    float *kernel = calloc((size_t)(channels * channels), sizeof *kernel);
    assert_non_null(kernel);
    for (int i = 0; i < channels; i++) kernel[i * channels + i] = 1;
    for (int i = 0; i < 2; i++) rig_write(r[i], b->kernel, kernel);
    free(kernel);
}

static void compare(rig *r[2], const char *what, int number, int reference, int other, double bound)
{
    if (reference < 0) return;
    double *wanted = rig_read(r[0], reference), *got = rig_read(r[1], other);
    double distance = 0, largest = 1; /* of one element the gradient is 0, and so may be all: then by itself */
    for (int64_t i = 0; i < rig_count(r[0], reference); i++) {
        distance = fmax(distance, isfinite(got[i]) ? fabs(got[i] - wanted[i]) : INFINITY);
        largest = fmax(largest, fabs(wanted[i]));
    }
    distance /= largest;
    if (!(distance <= bound)) print_error("batch_norm %d: %s differs by %g, bound %g\n", number, what, distance, bound);
    assert_true(distance <= bound);
    free(wanted);
    free(got);
}

/* Padding must come out as zeros: nothing else adds nothing. */
static void check_padding(rig *r, int value, const shape_of_case *c)
{
    double *values = rig_read(r, value);
    int64_t elements = kolo_shape_count(c->shape);
    for (int64_t i = c->samples * elements; i < rig_count(r, value); i++) assert_true(values[i] == 0);
    free(values);
}

static void one_case(dice *d, int number)
{
    kolo_precision precision = roll_coin(d) ? KOLO_MIXED_BF16 : KOLO_FLOAT32;
    if (tested->open(precision) != KOLO_OK) {
        kolo_failure_take();
        precision = KOLO_FLOAT32;
    }
    int microbatch = roll_between(d, 2, 9);
    shape_of_case c = draw(d, microbatch);
    bool narrow = precision == KOLO_MIXED_BF16;
    if (narrow) c.shift = 0; /* bfloat16 has no room beside 100 */
    if (c.relu) c.beta = true;
    built b[2];
    rig *r[2] = {rig_new(&kolo_reference_backend, precision, microbatch), rig_new(tested, precision, microbatch)};
    for (int i = 0; i < 2; i++) build(r[i], &c, &b[i]);
    write_both(r, d, b[0].x, c.shift);
    write_both(r, d, b[0].dy, 0);
    if (c.conv) write_identity(r, &c, &b[0]);
    write_three(r, d, b[0].gamma, 2, false);
    write_three(r, d, b[0].beta, c.relu ? 40 : 0, true);
    for (int i = 0; i < 2; i++) rig_run(r[i]);
    double bound = narrow ? 0x1p-7 : c.shift > 0 ? 1e-4 : 1e-5;
    compare(r, "y", number, b[0].y, b[1].y, bound);
    compare(r, "dx", number, b[0].dx, b[1].dx, 10 * bound);
    compare(r, "dgamma", number, b[0].dgamma, b[1].dgamma, bound);
    compare(r, "dbeta", number, b[0].dbeta, b[1].dbeta, bound);
    compare(r, "mean", number, b[0].dmean, b[1].dmean, 1e-6);
    compare(r, "variance", number, b[0].dvariance, b[1].dvariance, 1e-6);
    for (int i = 0; i < 2; i++) {
        check_padding(r[i], b[i].y, &c);
        check_padding(r[i], b[i].dx, &c);
        rig_free(r[i]);
    }
}

static void test_batch_norm(void **state)
{
    (void)state;
    dice d = {11};
    for (int number = 0; number < CASES; number++) one_case(&d, number);
}

int main(void)
{
    tested = tested_backend();
    if (!tested) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_batch_norm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
