/* A sum behind batch normalisation, and the gradient of a ReLU behind a sum of gradients: the backend's fused kernels
 * give the bits that its separate ones give. Random shapes, with the layouts that convolutions leave, microbatches that
 * are not full, and NaN. */
#include "rig.h"

#include "tested.h"

static const kolo_backend *tested;
static kolo_backend separate; /* the same without fusion */

#define CASES 120

typedef struct case_of {
    kolo_shape shape;
    bool conv, relu_of_norm, relu_of_sum, swapped;
    int samples;
} case_of;

typedef struct built {
    int x, other, kernel, gradient[2], y, dx;
} built;

static case_of draw(dice *d, int microbatch)
{
    static const int counts[] = {1, 3, 8, 16, 17, 32, 70};
    case_of c = {.conv = roll_coin(d),
                 .relu_of_norm = roll_coin(d),
                 .relu_of_sum = roll_coin(d),
                 .swapped = roll_coin(d),
                 .samples = roll_coin(d) ? microbatch : roll_between(d, 1, microbatch)};
    c.shape = (kolo_shape){3, {roll_between(d, 1, 9), roll_between(d, 1, 9), counts[roll_between(d, 0, 6)]}};
    return c;
}

/* A convolution leaves a layout in blocks of channels. */
static int convolve(rig *r, const case_of *c, built *b)
{
    int channels = c->shape.dim[2], y = rig_value(r, KOLO_VALUE_ACTIVATION, c->shape);
    b->kernel = kolo_plan_weights(&r->plan, 0, (kolo_shape){4, {1, 1, channels, channels}});
    kolo_window pixel = {.kernel = {1, 1}, .stride = {1, 1}};
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D, .in = {b->x, b->kernel, -1}, .out = {y}, .window = pixel});
    return y;
}

static kolo_activation relu_if(bool wanted)
{
    return wanted ? KOLO_RELU : KOLO_LINEAR;
}

static kolo_op sum_of(int a, int b, int to, bool swapped, bool relu)
{
    return (kolo_op){
        .kind = KOLO_OP_ADD, .in = {swapped ? b : a, swapped ? a : b}, .out = {to}, .activation = relu_if(relu)};
}

static void build(rig *r, const case_of *c, built *b)
{
    *b = (built){.kernel = -1};
    b->x = rig_input(r, c->shape);
    b->other = rig_input(r, c->shape);
    for (int i = 0; i < 2; i++) b->gradient[i] = rig_input(r, c->shape);
    int x = c->conv ? convolve(r, c, b) : b->x;
    int moments = rig_value(r, KOLO_VALUE_PARTIAL, (kolo_shape){1, {2 * c->shape.dim[2] + 1}});
    int z = rig_value(r, KOLO_VALUE_ACTIVATION, c->shape), y = rig_value(r, KOLO_VALUE_ACTIVATION, c->shape);
    int sum = rig_value(r, KOLO_VALUE_ACTIVATION, c->shape), dx = rig_value(r, KOLO_VALUE_ACTIVATION, c->shape);
    rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM_MOMENTS, .in = {x}, .out = {moments}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_BATCH_NORM,
                        .in = {x, moments, -1, -1, -1, -1},
                        .out = {z, -1, -1},
                        .epsilon = 1e-3,
                        .activation = relu_if(c->relu_of_norm)});
    rig_op(r, sum_of(z, b->other, y, c->swapped, c->relu_of_sum));
    rig_op(r, sum_of(b->gradient[0], b->gradient[1], sum, c->swapped, false));
    rig_op(r, (kolo_op){.kind = KOLO_OP_ACTIVATION_BACKWARD, .in = {sum, y, -1}, .out = {dx}, .activation = KOLO_RELU});
    b->y = rig_probe(r, y);
    b->dx = rig_probe(r, dx);
    rig_prepare(r);
    r->call.samples = c->samples;
}

static void write_both(rig *r[2], dice *d, int value, bool with_nan)
{
    if (value < 0) return;
    float *values = numbers(d, rig_count(r[0], value), 0);
    if (with_nan) values[0] = NAN;
    for (int i = 0; i < 2; i++) rig_write(r[i], value, values);
    free(values);
}

/* Padding need not be the same, only finite. */
static void compare(rig *r[2], const char *what, int number, int a, int b)
{
    double *wanted = rig_read(r[0], a), *got = rig_read(r[1], b);
    int64_t count = rig_count(r[0], a) / r[0]->plan.microbatch * r[0]->call.samples;
    for (int64_t i = 0; i < count; i++) {
        bool same = isnan(wanted[i]) ? isnan(got[i]) : memcmp(&wanted[i], &got[i], sizeof *got) == 0;
        if (!same) print_error("case %d: %s[%d] is %g, wanted %g\n", number, what, (int)i, got[i], wanted[i]);
        assert_true(same);
    }
    free(wanted);
    free(got);
}

static int fused_ops(const rig *r)
{
    int count = 0;
    for (int o = 0; o < r->plan.op_count; o++) count += r->plan.ops[o].computed_by >= 0;
    return count;
}

static void one_case(dice *d, int number)
{
    kolo_precision precision = roll_coin(d) ? KOLO_MIXED_BF16 : KOLO_FLOAT32;
    if (tested->open(precision) != KOLO_OK) {
        kolo_failure_take();
        precision = KOLO_FLOAT32;
    }
    int microbatch = roll_between(d, 2, 9);
    case_of c = draw(d, microbatch);
    built b[2];
    rig *r[2] = {rig_new(&separate, precision, microbatch), rig_new(tested, precision, microbatch)};
    for (int i = 0; i < 2; i++) build(r[i], &c, &b[i]);
    assert_int_equal(fused_ops(r[0]), 0);
    assert_int_equal(fused_ops(r[1]), 2);
    write_both(r, d, b[0].x, false);
    write_both(r, d, b[0].other, roll_between(d, 0, 3) == 0);
    for (int i = 0; i < 2; i++) write_both(r, d, b[0].gradient[i], roll_between(d, 0, 3) == 0);
    write_both(r, d, b[0].kernel, false);
    for (int i = 0; i < 2; i++) rig_run(r[i]);
    compare(r, "y", number, b[0].y, b[1].y);
    compare(r, "dx", number, b[0].dx, b[1].dx);
    for (int i = 0; i < 2; i++) rig_free(r[i]);
}

static void fused_kernels_give_the_same_bits(void **state)
{
    (void)state;
    dice d = {11};
    for (int number = 0; number < CASES; number++) one_case(&d, number);
}

int main(void)
{
    tested = tested_backend();
    if (!tested) return 1;
    separate = *tested;
    separate.fuses = NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(fused_kernels_give_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
