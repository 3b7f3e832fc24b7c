/* Whole trainings on the CUDA backend beside the reference backend's: the same losses, scores and weights but for
 * rounding, whatever the batch, the update, the precision, the layers; and the same bits where that is promised. */
/* test: long: it trains whole networks on simulated GPUs. */
#include "device.h"
#include "ext/core/small.h"
#include "three_devices.h"

#include <string.h>

#include "data/data.h"

#define WEIGHTS 12288
#define EPOCHS  3

typedef struct training {
    kolo_model *(*model)(void);
    kolo_optimizer optimizer;
    kolo_precision precision;
    bool deterministic;
    int samples, batch, micro_batch, devices; /* 0: 90, 37 */
    bool drop_remainder;
    kolo_loss loss;
    bool augmented; /* samples that are made on the host */
    float offset; /* of all features, which then vary little: the order of sums shows in their variance */
} training;

typedef struct outcome {
    float weights[WEIGHTS];
    double loss[EPOCHS], val_loss[EPOCHS], val_accuracy[EPOCHS];
    int64_t images;
} outcome;

static kolo_data *moved(kolo_data *data, float by)
{
    float *features = (float *)(uintptr_t)data->floats;
    for (int64_t i = 0; i < data->samples * SMALL_SIDE * SMALL_SIDE; i++) features[i] += by;
    return data;
}

static kolo_data *data_for(const training *t)
{
    kolo_data *data = moved(small_data(t->samples ? t->samples : 90), t->offset);
    if (!t->augmented) return data;
    kolo_data *augmented = kolo_augment(data, .flip = true, .shift = {1, 1});
    kolo_data_free(&data);
    return augmented;
}

static void train(training t, const char *backend, outcome *out)
{
    kolo_data *plain = moved(small_data(t.samples ? t.samples : 90), t.offset), *data = data_for(&t);
    kolo_model *model = t.model ? t.model() : small_model();
    kolo_strategy strategy = t.devices > 1 ? kolo_mirrored(.devices = t.devices) : (kolo_strategy){0};
    assert_int_equal(kolo_compile(model, .optimizer = t.optimizer.kind ? t.optimizer : kolo_sgd(.learning_rate = 0.1),
                                  .loss = t.loss.kind ? t.loss : KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                  .metrics = {KOLO_ACCURACY}, .strategy = strategy, .deterministic = t.deterministic,
                                  .precision = t.precision, .backend = backend),
                     KOLO_OK);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = EPOCHS, .batch_size = t.batch ? t.batch : 37, .micro_batch = t.micro_batch,
                 .drop_remainder = t.drop_remainder, .validation_data = plain, .verbose = KOLO_NONE);
    assert_non_null(history);
    memset(out, 0, sizeof *out);
    for (int e = 0; e < EPOCHS; e++) {
        out->loss[e] = history->epoch[e].loss;
        out->val_loss[e] = history->epoch[e].val_loss;
        out->val_accuracy[e] = history->epoch[e].val_accuracy;
    }
    out->images = history->epoch[0].images;
    int64_t count = kolo_count_params(model);
    assert_true(count <= WEIGHTS);
    memcpy(out->weights, kolo_weight_get(model, 0).values, (size_t)count * sizeof(float));
    kolo_scores scores = kolo_evaluate(model, plain);
    assert_true(scores.loss == out->val_loss[EPOCHS - 1]);
    kolo_model_free(&model);
    kolo_data_free(&data);
    kolo_data_free(&plain);
}

static void assert_alike(const outcome *got, const outcome *wanted, double tolerance)
{
    assert_int_equal(got->images, wanted->images);
    for (int e = 0; e < EPOCHS; e++) {
        assert_true(fabs(got->loss[e] - wanted->loss[e]) <= tolerance * wanted->loss[e]);
        assert_true(fabs(got->val_loss[e] - wanted->val_loss[e]) <= tolerance * wanted->val_loss[e]);
    }
    for (int i = 0; i < WEIGHTS; i++) assert_true(fabsf(got->weights[i] - wanted->weights[i]) <= (float)tolerance);
}

static void compare(training t, double tolerance)
{
    outcome wanted, got;
    train(t, "reference", &wanted);
    train(t, "cuda", &got);
    assert_alike(&got, &wanted, tolerance);
}

/* ---- models ---- */

static kolo_model *dense_model(void)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(),
                           kolo_dense(12, .activation = KOLO_RELU), kolo_dropout(0.3), kolo_dense(SMALL_CLASSES));
}

static kolo_model *normed_model(void)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_conv2d(4, .kernel = {3, 3}, .no_bias = true),
                           kolo_batch_norm(.synchronized = true), kolo_activate(KOLO_RELU),
                           kolo_global_average_pool2d(), kolo_dense(SMALL_CLASSES));
}

static kolo_model *penalised_model(void)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(), kolo_dense(9, .l2 = 0.02),
                           kolo_dense(SMALL_CLASSES, .l2 = 0.01));
}

/* Two convolutions that are one with their poolings where numbers are narrow (backend/cuda/pooled_conv2d.c). */
static kolo_model *pooled_model(void)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                           kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU),
                           kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU),
                           kolo_max_pool2d(2, 2), kolo_dropout(0.25),
                           kolo_conv2d(32, .kernel = {3, 3}, .padding = KOLO_SAME, .no_bias = true),
                           kolo_max_pool2d(2, 2), kolo_flatten(), kolo_dense(SMALL_CLASSES));
}

/* One that others see before it is pooled, and one whose pooling others see before the dropout. */
static kolo_model *watched_model(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, SMALL_SIDE, SMALL_SIDE, 1);
    x = kolo_apply(kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU), x);
    kolo_tensor seen = kolo_apply(kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME), x);
    kolo_tensor small = kolo_apply(kolo_max_pool2d(2, 2), seen);
    small = kolo_apply(kolo_conv2d(32, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU), small);
    kolo_tensor pooled = kolo_apply(kolo_max_pool2d(2, 2), small);
    kolo_tensor dropped = kolo_apply(kolo_flatten(), kolo_apply(kolo_dropout(0.25), pooled));
    kolo_tensor means[2] = {kolo_apply(kolo_global_average_pool2d(), seen),
                            kolo_apply(kolo_global_average_pool2d(), pooled)};
    x = kolo_apply(kolo_concatenate(), dropped, kolo_apply(kolo_flatten(), means[0]),
                   kolo_apply(kolo_flatten(), means[1]));
    assert_int_equal(kolo_graph_output(model, kolo_apply(kolo_dense(SMALL_CLASSES), x)), KOLO_OK);
    return model;
    return model;
}

/* Its weights begin anywhere among all, since layers before have odd numbers of them. */
static kolo_model *odd_model(void)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_conv2d(5, .kernel = {3, 3}),
                           kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME),
                           kolo_depthwise_conv2d(.kernel = {3, 3}),
                           kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME, .groups = 2), kolo_batch_norm(),
                           kolo_conv2d_transpose(8, .kernel = {3, 3}), kolo_global_average_pool2d(),
                           kolo_dense(SMALL_CLASSES));
}

/* ---- tests ---- */
static void dense_layers_learn_alike(void **state)
{
    (void)state;
    compare((training){.model = dense_model}, 1e-5);
    compare((training){.model = dense_model, .optimizer = kolo_adam()}, 1e-4);
    compare((training){.model = dense_model, .batch = 90}, 1e-5);
    compare((training){.model = dense_model, .batch = 200}, 1e-5);
    compare((training){.model = dense_model, .batch = 32, .drop_remainder = true}, 1e-5);
}

/* Several microbatches a step, as deterministic mode and small memories have them. */
static void microbatches_add_up(void **state)
{
    (void)state;
    compare((training){.model = dense_model, .micro_batch = 5}, 1e-5);
    compare((training){.model = dense_model, .deterministic = true}, 1e-5);
    outcome one, two;
    train((training){.model = dense_model, .deterministic = true}, "cuda", &one);
    train((training){.model = dense_model, .deterministic = true}, "cuda", &two);
    assert_memory_equal(&one, &two, sizeof one);
}

static void samples_may_be_made_on_the_host(void **state)
{
    (void)state;
    compare((training){.model = dense_model, .augmented = true}, 1e-5);
}

static void updates_gather_batches(void **state)
{
    (void)state;
    compare((training){.model = dense_model, .optimizer = kolo_sgd(.learning_rate = 0.1, .accumulate_steps = 2)}, 1e-5);
    compare((training){.model = dense_model, .optimizer = kolo_adam(.global_clip_norm = 0.5)}, 1e-4);
    compare((training){.model = penalised_model}, 1e-5);
}

static void halves_are_scaled(void **state)
{
    (void)state;
    compare((training){.model = dense_model, .precision = KOLO_MIXED_FP16}, 2e-2);
    compare((training){.model = dense_model, .precision = KOLO_MIXED_BF16}, 5e-2);
}

/* A V100: of tensor cores' elements it has fp16 alone. */
static void an_old_device_has_halves_only(void **state)
{
    (void)state;
    if (!device_is_simulated()) skip();
    setenv("KOLO_SHIM_CAPABILITY", "70", 1);
    compare((training){0}, 1e-5);
    compare((training){.precision = KOLO_MIXED_FP16}, 2e-2);
    kolo_data *data = small_data(90);
    kolo_model *model = small_model();
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .precision = KOLO_MIXED_BF16,
                 .backend = "cuda");
    assert_null(kolo_fit(model, data, .verbose = KOLO_NONE));
    assert_non_null(strstr(kolo_last_error().text, "got one of 7.0: take mixed_fp16"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
    unsetenv("KOLO_SHIM_CAPABILITY");
}

static void images_learn_alike(void **state)
{
    (void)state;
    compare((training){0}, 1e-5);
    compare((training){.model = normed_model}, 1e-4);
    compare((training){.model = normed_model, .micro_batch = 11}, 1e-4);
    compare((training){.model = odd_model}, 1e-4);
}

/* An older device than Ampere has no such kernels. */
static void pooled_layers_learn_alike(void **state)
{
    (void)state;
    outcome one, other;
    training t = {.model = pooled_model, .precision = KOLO_MIXED_BF16, .samples = 12, .batch = 6};
    compare(t, 5e-2);
    t.model = watched_model;
    compare(t, 5e-2);
    t.model = pooled_model;
    t.deterministic = true;
    train(t, "cuda", &one);
    t.devices = 3;
    train(t, "cuda", &other);
    assert_memory_equal(&one, &other, sizeof one);
    t = (training){.model = pooled_model, .precision = KOLO_MIXED_FP16, .samples = 12, .batch = 6, .micro_batch = 3};
    compare(t, 2e-2);
    if (!device_is_simulated()) return;
    train(t, "cuda", &one);
    setenv("KOLO_SHIM_CAPABILITY", "75", 1);
    train(t, "cuda", &other);
    unsetenv("KOLO_SHIM_CAPABILITY");
    assert_alike(&one, &other, 2e-2);
}

static void devices_have_the_bits_of_one(void **state)
{
    (void)state;
    outcome one, many;
    train((training){.deterministic = true}, "cuda", &one);
    train((training){.deterministic = true, .devices = 3}, "cuda", &many);
    assert_memory_equal(&one, &many, sizeof one);
    train((training){.model = penalised_model, .deterministic = true}, "cuda", &one);
    train((training){.model = penalised_model, .deterministic = true, .devices = 3}, "cuda", &many);
    assert_memory_equal(&one, &many, sizeof one);
    train((training){.model = normed_model, .deterministic = true, .offset = 5000}, "cuda", &one);
    train((training){.model = normed_model, .deterministic = true, .offset = 5000, .devices = 3}, "cuda", &many);
    assert_memory_equal(&one, &many, sizeof one);
    train((training){0}, "cuda", &one);
    train((training){.devices = 2}, "cuda", &many);
    for (int i = 0; i < WEIGHTS; i++) assert_float_equal(one.weights[i], many.weights[i], 2e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layers_learn_alike),
        cmocka_unit_test(microbatches_add_up),
        cmocka_unit_test(samples_may_be_made_on_the_host),
        cmocka_unit_test(updates_gather_batches),
        cmocka_unit_test(halves_are_scaled),
        cmocka_unit_test(an_old_device_has_halves_only),
        cmocka_unit_test(images_learn_alike),
        cmocka_unit_test(pooled_layers_learn_alike),
        cmocka_unit_test(devices_have_the_bits_of_one),
    };
    if (getenv("ONLY")) cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
