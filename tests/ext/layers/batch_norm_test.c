/* Batch normalisation as a layer: PyTorch's numbers over three training steps, running statistics included; gradients
 * against finite differences, over several microbatches, one of them not full; ghost batches; options that are refused.
 *
 * The reference backend keeps weights and gradients in float32, as every backend: after three steps they are 6e-8 and
 * some more off. Bound: 2e-5 of an array's largest element.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <kolo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ext/backend/tested.h"

#include "pytorch_batch_norm.h"

enum { part = 8, steps = 3, side = 6, channels = 2, filters = 5, units = 7, classes = 4 };

/* ---------------------------------------------------------------- data and weights by formula */

/* As numbers() of pytorch_batch_norm.py. */
static double number(uint32_t i, uint32_t stream)
{
    uint32_t x = i + stream * 0x9E3779B1u;
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    x ^= x >> 16;
    return (double)(x >> 16) / 65536;
}

/* Samples first … first + samples - 1 of an endless data set. */
static kolo_data *some_data(int first, int samples)
{
    int elements = side * side * channels;
    float *features = malloc((size_t)(samples * elements) * sizeof *features);
    int32_t *labels = malloc((size_t)samples * sizeof *labels);
    assert_true(features && labels);
    for (int i = 0; i < samples * elements; i++)
        features[i] = (float)(4 * number((uint32_t)(first * elements + i), 0) + 1);
    for (int s = 0; s < samples; s++) labels[s] = (first + s) % classes;
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples, .shape = {side, side, channels},
                                            .classes = classes);
    free(features);
    free(labels);
    assert_non_null(data);
    return data;
}

static kolo_weight weight_of(kolo_model *model, const char *name)
{
    for (int w = 0; w < kolo_weight_count(model); w++)
        if (strcmp(kolo_weight_get(model, w).name, name) == 0) return kolo_weight_get(model, w);
    fail_msg("no weights of the name %s", name);
    return (kolo_weight){0};
}

static void set(kolo_model *model, const char *name, uint32_t stream, double width, double middle)
{
    kolo_weight weight = weight_of(model, name);
    for (int64_t i = 0; i < weight.count; i++)
        weight.values[i] = (float)((number((uint32_t)i, stream) - 0.5) * width + middle);
}

static void check_close(const char *what, const float *got, const double *wanted, int64_t count, double bound)
{
    double largest = 0, apart = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(wanted[i]));
        apart = isfinite(got[i]) ? fmax(apart, fabs((double)got[i] - wanted[i])) : INFINITY;
    }
    if (!(apart <= bound * largest)) print_error("%s: %g apart, largest %g, bound %g\n", what, apart, largest, bound);
    assert_true(apart <= bound * largest);
}

/* ---------------------------------------------------------------- PyTorch's numbers */

static kolo_model *small_network(void)
{
    return kolo_sequential(kolo_input(side, side, channels), kolo_conv2d(filters, .kernel = {3, 3}, .no_bias = true),
                           kolo_batch_norm(.momentum = 0.9, .activation = KOLO_RELU), kolo_flatten(),
                           kolo_dense(units, .no_bias = true), kolo_batch_norm(.momentum = 0.9, .no_scale = true),
                           kolo_dense(classes));
}

static void set_weights(kolo_model *model)
{
    set(model, "conv2d.kernel", 1, 1, 0);
    set(model, "batch_norm.gamma", 2, 1, 1);
    set(model, "batch_norm.beta", 3, 0.5, 0);
    set(model, "dense.kernel", 4, 0.5, 0);
    set(model, "batch_norm_1.beta", 5, 0.5, 0);
    set(model, "dense_1.kernel", 6, 1, 0);
    set(model, "dense_1.bias", 7, 0.5, 0);
}

#define CHECK_WEIGHT(model, name, wanted)                                                                              \
    check_close(name, weight_of(model, name).values, wanted, (int64_t)(sizeof(wanted) / sizeof *(wanted)), 2e-5)

static void check_pytorch(const char *backend, int micro_batch)
{
    kolo_data *data = some_data(0, steps * part);
    kolo_model *model = small_network();
    float outputs[steps * part * classes];
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 0.25), .seed = 1,
                                  .loss = KOLO_SPARSE_CROSSENTROPY, .backend = backend),
                     KOLO_OK);
    set_weights(model);
    const kolo_history *history =
        kolo_fit(model, data, .batch_size = part, .micro_batch = micro_batch, .no_shuffle = true, .verbose = KOLO_NONE);
    assert_non_null(history);
    double loss = (pytorch_losses[0] + pytorch_losses[1] + pytorch_losses[2]) / steps;
    assert_true(fabs(history->epoch[0].loss - loss) < 1e-5 * loss);
    CHECK_WEIGHT(model, "conv2d.kernel", pytorch_conv2d_kernel);
    CHECK_WEIGHT(model, "batch_norm.gamma", pytorch_batch_norm_gamma);
    CHECK_WEIGHT(model, "batch_norm.beta", pytorch_batch_norm_beta);
    CHECK_WEIGHT(model, "batch_norm.moving_mean", pytorch_batch_norm_moving_mean);
    CHECK_WEIGHT(model, "batch_norm.moving_variance", pytorch_batch_norm_moving_variance);
    CHECK_WEIGHT(model, "dense.kernel", pytorch_dense_kernel);
    CHECK_WEIGHT(model, "batch_norm_1.beta", pytorch_batch_norm_1_beta);
    CHECK_WEIGHT(model, "batch_norm_1.moving_mean", pytorch_batch_norm_1_moving_mean);
    CHECK_WEIGHT(model, "batch_norm_1.moving_variance", pytorch_batch_norm_1_moving_variance);
    CHECK_WEIGHT(model, "dense_1.kernel", pytorch_dense_1_kernel);
    CHECK_WEIGHT(model, "dense_1.bias", pytorch_dense_1_bias);
    assert_int_equal(kolo_predict(model, data, outputs), KOLO_OK);
    check_close("outputs", outputs, pytorch_outputs, steps * part * classes, 5e-5);
    assert_true(fabs(kolo_evaluate(model, data).loss - pytorch_score) < 5e-5 * pytorch_score);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* Microbatches of all sizes: of one sample, with one that is not full, the whole batch. */
static void three_steps_are_pytorchs(void **state)
{
    (void)state;
    static const int micro_batches[] = {0, 1, 3, 8};
    for (size_t i = 0; i < sizeof micro_batches / sizeof *micro_batches; i++) {
        check_pytorch("reference", micro_batches[i]);
        check_pytorch(KOLO_TEST_BACKEND, micro_batches[i]);
    }
}

/* ---------------------------------------------------------------- gradients */

static double slope(kolo_model *model, kolo_data *data, float *weight, float step)
{
    float kept = *weight;
    *weight = kept + step;
    double up = kolo_gradients(model, data, NULL);
    *weight = kept - step;
    double down = kolo_gradients(model, data, NULL);
    *weight = kept;
    return (up - down) / (2 * (double)step);
}

/* Outputs are float32: over a step of 2^-9 their rounding gives 1e-4. No relu: with so many samples every step would
 * cross kinks of it (PyTorch's numbers above have one). */
static void check_gradients(kolo_model *model, const char *backend)
{
    kolo_data *data = some_data(0, 40); /* a microbatch and a quarter */
    assert_non_null(model);
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5, .backend = backend), KOLO_OK);
    float *gradients = malloc((size_t)kolo_count_params(model) * sizeof *gradients), *gradient = gradients;
    assert_non_null(gradients);
    assert_true(isfinite(kolo_gradients(model, data, gradients)));
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i += weight.count / 6 + 1) {
            double by_differences = slope(model, data, &weight.values[i], 0x1p-9f);
            double bound = 5e-4 + 5e-3 * fabs(by_differences);
            if (!(fabs(by_differences - (double)gradient[i]) <= bound))
                print_error("%s: %s[%d]: %g, by differences %g\n", backend, weight.name, (int)i, (double)gradient[i],
                            by_differences);
            assert_true(fabs(by_differences - (double)gradient[i]) <= bound);
        }
        gradient += weight.count;
    }
    free(gradients);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

#define NETWORK(...)                                                                                                   \
    kolo_sequential(kolo_input(side, side, channels), kolo_conv2d(3, .kernel = {3, 3}), __VA_ARGS__, kolo_flatten(),   \
                    kolo_dense(classes))

static void gradients_are_slopes(void **state)
{
    (void)state;
    static const char *const backends[] = {"reference", KOLO_TEST_BACKEND};
    for (int i = 0; i < 2; i++) {
        check_gradients(NETWORK(kolo_batch_norm()), backends[i]);
        check_gradients(NETWORK(kolo_batch_norm(.activation = KOLO_TANH)), backends[i]);
        check_gradients(NETWORK(kolo_batch_norm(.no_scale = true), kolo_batch_norm(.no_center = true)), backends[i]);
        check_gradients(NETWORK(kolo_batch_norm(.activation = KOLO_SOFTMAX)), backends[i]);
        check_gradients(NETWORK(kolo_batch_norm(.ghost_batch = 8, .epsilon = 0.1, .activation = KOLO_GELU)),
                        backends[i]);
        check_gradients(kolo_sequential(kolo_input(side, side, channels), kolo_batch_norm(), kolo_flatten(),
                                        kolo_dense(classes), kolo_batch_norm()),
                        backends[i]);
    }
}

/* ---------------------------------------------------------------- ghost batches */

static kolo_model *ghost_network(int ghost)
{
    kolo_model *model = NETWORK(kolo_batch_norm(.ghost_batch = ghost, .activation = KOLO_RELU));
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5), KOLO_OK);
    return model;
}

/* A ghost batch's samples see each other alone: the mean over three of them is that of three batches apart. */
static void ghost_batches_are_batches_apart(void **state)
{
    (void)state;
    kolo_model *together = ghost_network(8), *apart = ghost_network(0);
    kolo_data *all = some_data(0, 24);
    int64_t count = kolo_count_params(together);
    float *got = calloc((size_t)count, sizeof *got), *one = calloc((size_t)count, sizeof *one);
    double *wanted = calloc((size_t)count, sizeof *wanted), loss = 0;
    assert_true(got && one && wanted);
    for (int i = 0; i < 3; i++) {
        kolo_data *third = some_data(8 * i, 8);
        loss += kolo_gradients(apart, third, one) / 3;
        for (int64_t k = 0; k < count; k++) wanted[k] += (double)one[k] / 3;
        kolo_data_free(&third);
    }
    assert_true(fabs(kolo_gradients(together, all, got) - loss) < 1e-6);
    check_close("ghost batches", got, wanted, count, 1e-5);
    free(got);
    free(one);
    free(wanted);
    kolo_model_free(&together);
    kolo_model_free(&apart);
    kolo_data_free(&all);
}

/* ---------------------------------------------------------------- running statistics */

/* Without momentum they are the last step's own: those of a data set that is one batch. */
static void momentum_may_be_none(void **state)
{
    (void)state;
    kolo_data *data = some_data(0, 10);
    kolo_model *model = kolo_sequential(kolo_input(side, side, channels), kolo_batch_norm(.momentum = KOLO_NONE),
                                        kolo_flatten(), kolo_dense(classes));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY), KOLO_OK);
    assert_non_null(kolo_fit(model, data, .batch_size = 10, .verbose = KOLO_NONE));
    int elements = side * side * channels, n = 10 * side * side;
    for (int c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (int i = c; i < 10 * elements; i += channels) {
            double x = (double)(float)(4 * number((uint32_t)i, 0) + 1);
            sum += x;
            squares += x * x;
        }
        double mean = sum / n, variance = squares / n - mean * mean;
        assert_true(fabs((double)weight_of(model, "batch_norm.moving_mean").values[c] - mean) < 1e-6 * mean);
        assert_true(fabs((double)weight_of(model, "batch_norm.moving_variance").values[c] - variance) <
                    1e-5 * variance);
    }
    assert_false(weight_of(model, "batch_norm.moving_mean").trained);
    assert_true(weight_of(model, "batch_norm.gamma").trained);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* Two channels far from zero, 10^4 of their deviations off, still come out with that deviation. */
static void values_far_from_zero_keep_their_variance(void **state)
{
    (void)state;
    enum { samples = 64 };
    float features[samples * 2];
    int32_t labels[samples];
    for (int i = 0; i < samples; i++) {
        features[2 * i] = 1000 + (i % 2 ? 0.125f : -0.125f);
        features[2 * i + 1] = -3000 + (i % 4 < 2 ? 0.25f : -0.25f);
        labels[i] = i % 2;
    }
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples, .shape = {2}, .classes = 2);
    kolo_model *model = kolo_sequential(kolo_input(2), kolo_batch_norm(.momentum = KOLO_NONE), kolo_dense(2));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY), KOLO_OK);
    assert_non_null(kolo_fit(model, data, .batch_size = samples, .verbose = KOLO_NONE));
    const float *variance = weight_of(model, "batch_norm.moving_variance").values;
    assert_true(fabs((double)variance[0] - 0.015625) < 1e-6 && fabs((double)variance[1] - 0.0625) < 1e-6);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- what is refused */

static void refused(kolo_model *model, const char *words)
{
    assert_null(model);
    if (!strstr(kolo_last_error().text, words)) print_error("%s\n", kolo_last_error().text);
    assert_non_null(strstr(kolo_last_error().text, words));
    kolo_clear_error();
}

static void options_are_checked(void **state)
{
    (void)state;
    kolo_clear_error();
    refused(NETWORK(kolo_batch_norm(.momentum = 1)), "layer 2 (batch_norm): momentum: wanted 0 ≤ momentum < 1, got 1");
    refused(NETWORK(kolo_batch_norm(.momentum = NAN)), "momentum: wanted");
    refused(NETWORK(kolo_batch_norm(.epsilon = -1)), "epsilon: wanted");
    refused(NETWORK(kolo_batch_norm(.ghost_batch = 1025)), "ghost_batch: wanted 1 … 1024 samples, got 1025");
    refused(NETWORK(kolo_batch_norm(.ghost_batch = -1)), "ghost_batch: wanted");
    refused(NETWORK(kolo_batch_norm(.ghost_batch = 8, .synchronized = true)), "got both");
    refused(NETWORK(kolo_batch_norm(.ghost_batch = 8), kolo_batch_norm(.ghost_batch = 16)),
            "layer 3 (batch_norm_1): wanted a ghost_batch of 8, as layer 2 (batch_norm) has, got 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_steps_are_pytorchs),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(ghost_batches_are_batches_apart),
        cmocka_unit_test(momentum_may_be_none),
        cmocka_unit_test(values_far_from_zero_keep_their_variance),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
