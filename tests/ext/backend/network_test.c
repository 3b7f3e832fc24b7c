/* Whole networks drawn at random, through the public interface: outputs, loss and gradients of a backend
 * against the reference backend's, in float32, bfloat16 and binary16.
 *
 * Features and weights are eighths: up to the logits every sum is exact in float32, so that no relu or maximum hangs on
 * rounding and the bounds are those of the way back: 2e-5 of an array's largest gradient in float32; in bfloat16, each
 * operation of which may differ by 2^-8, of five in a row; in binary16 by
 * 2^-10.
 */
#include "outcome.h"
#include "tested.h"
#include "runtime/runtime.h"

#ifndef KOLO_TEST_CASES /* fewer, where a backend is slow */
#define KOLO_TEST_CASES 60
#endif
enum { networks = KOLO_TEST_CASES, layers_max = 16, samples_max = 40 };

static kolo_activation roll_activation(dice *d)
{
    return roll_coin(d) ? KOLO_RELU : KOLO_LINEAR;
}

/* A layer for an image of that size, which it changes as the layer does. */
static kolo_layer roll_image_layer(dice *d, int *height, int *width)
{
    int kernel = roll_between(d, 1, 3);
    bool small = *height < 4 || *width < 4;
    switch (roll_between(d, 0, 5)) {
    case 0:
        if (small) break;
        *height /= 2;
        *width /= 2;
        return kolo_max_pool2d(2, 2);
    case 1: return kolo_dropout(0.3);
    case 2: return kolo_activate(KOLO_RELU);
    case 3:
        if (small) break;
        *height -= kernel - 1;
        *width -= kernel - 1;
        return kolo_conv2d(roll_between(d, 1, 20), .kernel = {kernel, kernel}, .activation = roll_activation(d));
    default: break;
    }
    if (roll_between(d, 0, 4) == 0) return kolo_dense(roll_between(d, 1, 9), .activation = roll_activation(d));
    return kolo_conv2d(roll_between(d, 1, 20), .kernel = {kernel, 1}, .padding = KOLO_SAME, .no_bias = roll_coin(d),
                       .activation = roll_activation(d));
}

/* Returns the shape of a sample. */
static kolo_shape roll_network(dice *d, kolo_layer *layers, int classes)
{
    int count = 0, height = roll_between(d, 2, 10), width = roll_between(d, 2, 10), channels = roll_between(d, 1, 4);
    bool image = roll_between(d, 0, 3) > 0;
    kolo_shape shape = {3, {height, width, channels}};
    if (!image) shape = (kolo_shape){1, {roll_between(d, 1, 40)}};
    layers[count++] = kolo_input(shape.dim[0], shape.dim[1], shape.dim[2]);
    for (int n = image ? roll_between(d, 0, 4) : 0; n > 0; n--) layers[count++] = roll_image_layer(d, &height, &width);
    if (image) layers[count++] = kolo_flatten();
    for (int n = roll_between(d, 0, 2); n > 0; n--) {
        layers[count++] = kolo_dense(roll_between(d, 1, 40), .activation = KOLO_RELU);
    }
    layers[count++] = kolo_dense(classes, .activation = roll_coin(d) ? KOLO_SOFTMAX : KOLO_LINEAR);
    layers[count] = (kolo_layer){0};
    return shape;
}

static void assert_close(int number, const char *what, const float *got, const float *wanted, int64_t count,
                         double bound)
{
    double difference = outcome_difference(got, wanted, count);
    if (!(difference <= bound)) print_error("network %d: %s differ by %g, bound %g\n", number, what, difference, bound);
    assert_true(difference <= bound);
}

static void one_network(int number, kolo_precision precision)
{
    dice d = {1000u + (unsigned)number};
    kolo_layer layers[layers_max];
    int classes = roll_between(&d, 2, 12), samples = roll_between(&d, 1, samples_max);
    kolo_shape shape = roll_network(&d, layers, classes);
    float *features = numbers(&d, samples * kolo_shape_count(shape), 8);
    int32_t labels[samples_max];
    for (int s = 0; s < samples; s++) labels[s] = roll_between(&d, 0, classes - 1);
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples,
                                            .shape = {shape.dim[0], shape.dim[1], shape.dim[2]}, .classes = classes);
    assert_non_null(data);
    outcome wanted = outcome_of(kolo_sequential_at(layers, KOLO_HERE), "reference", precision, 5, data, classes);
    outcome got = outcome_of(kolo_sequential_at(layers, KOLO_HERE), KOLO_TEST_BACKEND, precision, 5, data, classes);
    bool wide = precision == KOLO_FLOAT32;
    double last = precision == KOLO_MIXED_FP16 ? 0x1p-10 : 0x1p-8;
    assert_true(fabs(got.loss - wanted.loss) <= (wide ? 1e-5 : 2 * last) * fabs(wanted.loss) + 1e-6);
    assert_close(number, "outputs", got.outputs, wanted.outputs, samples * classes, wide ? 1e-5 : 2 * last);
    assert_close(number, "gradients", got.gradients, wanted.gradients, got.weights, wide ? 2e-5 : 5 * last);
    free(got.gradients);
    free(got.outputs);
    free(wanted.gradients);
    free(wanted.outputs);
    free(features);
    kolo_data_free(&data);
}

static void test_float32(void **state)
{
    (void)state;
    for (int n = 0; n < networks; n++) one_network(n, KOLO_FLOAT32);
}

static void test_bfloat16(void **state)
{
    (void)state;
    const kolo_backend *backend;
    if (kolo_backend_find(KOLO_TEST_BACKEND, KOLO_MIXED_BF16, &backend) == KOLO_UNSUPPORTED) {
        kolo_failure_take();
        skip();
    }
    for (int n = 0; n < networks; n++) one_network(n, KOLO_MIXED_BF16);
}

static void test_binary16(void **state)
{
    (void)state;
    for (int n = 0; n < networks; n++) one_network(n, KOLO_MIXED_FP16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_float32), cmocka_unit_test(test_bfloat16),
                                       cmocka_unit_test(test_binary16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
