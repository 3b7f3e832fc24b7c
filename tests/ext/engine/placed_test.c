/* Models whose layers are placed at random on three devices: what they learn, score and give is what they do on one,
 * bit by bit; whatever the layers, the precision, the micro-batches, the replicas. */
#include "ext/backend/rig.h"

#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "ext/core/small.h"
#include "ext/backend/tested.h"
#include "ext/layers/gpt.h"

#define DEVICES 3

#ifndef KOLO_TEST_CASES
#define KOLO_TEST_CASES 12
#endif

#ifndef KOLO_TEST_LOSS_ROUNDING /* of losses, where layers on several devices add to them each in its own memory */
#define KOLO_TEST_LOSS_ROUNDING 0
#endif

/* ---- models ---- */

static kolo_model *images_model(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, SMALL_SIDE, SMALL_SIDE, 1);
    kolo_tensor y = kolo_apply(kolo_conv2d(4, .kernel = {3, 3}, .activation = KOLO_RELU, .l2 = 1e-3), x);
    kolo_tensor left = kolo_apply(kolo_max_pool2d(2, 2), kolo_apply(kolo_conv2d(5, .kernel = {1, 1}), y));
    kolo_tensor right = kolo_apply(kolo_dropout(0.3), kolo_apply(kolo_average_pool2d(2, 2), y));
    y = kolo_apply(kolo_batch_norm(.synchronized = true), kolo_apply(kolo_concatenate(), left, right));
    y = kolo_apply(kolo_flatten(), kolo_apply(kolo_activate(KOLO_TANH), y));
    assert_int_equal(kolo_graph_output(model, kolo_apply(kolo_dense(SMALL_CLASSES), y)), KOLO_OK);
    return model;
}

static kolo_model *text_model(void)
{
    return gpt_model((gpt){.vocabulary = 11, .length = 5, .size = 8, .heads = 2, .hidden = 12, .dropout = 0.2});
}

/* A layer of the host's arithmetic, which adds to the loss, wherever it is. */
static kolo_model *coding_model(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, SMALL_SIDE, SMALL_SIDE, 1);
    kolo_tensor y = kolo_apply(kolo_dense(9, .activation = KOLO_RELU), kolo_apply(kolo_flatten(), x));
    kolo_tensor code =
        kolo_apply(kolo_gaussian_sample(.kl_weight = 0.1), kolo_apply(kolo_dense(3), y), kolo_apply(kolo_dense(3), y));
    y = kolo_apply(kolo_flatten(), kolo_apply(kolo_dense(SMALL_CLASSES), code));
    assert_int_equal(kolo_graph_output(model, y), KOLO_OK);
    return model;
}

static kolo_data *text_data(int samples)
{
    float tokens[5 * 64];
    int32_t labels[5 * 64];
    for (int i = 0; i < 5 * samples; i++) {
        tokens[i] = (float)(i * 7 % 11);
        labels[i] = i * 3 % 11;
    }
    return kolo_data_from_arrays(tokens, labels, .samples = samples, .shape = {5}, .label_count = 5, .classes = 11);
}

/* Weights of samples, which the loss and a layer that adds to it are told. */
static kolo_data *image_data(int samples)
{
    enum { most = 64, elements = SMALL_SIDE * SMALL_SIDE };
    static float features[most * elements], weights[most];
    int32_t labels[most];
    dice d = {5};
    for (int i = 0; i < samples * elements; i++) features[i] = (float)roll_between(&d, -64, 64) / 64;
    for (int i = 0; i < samples; i++) {
        labels[i] = i % SMALL_CLASSES;
        weights[i] = (float)(1 + i % 3) / 2;
    }
    return kolo_data_from_arrays(features, labels, .samples = samples, .shape = {SMALL_SIDE, SMALL_SIDE, 1},
                                 .classes = SMALL_CLASSES, .weights = weights);
}

typedef struct training {
    kolo_model *(*model)(void);
    kolo_data *(*data)(int samples);
    int samples, batch;
    kolo_precision precision;
    int micro_batch, replicas;
    bool deterministic;
    uint64_t seed; /* of the places; 0: all layers are on one */
} training;

static void place(kolo_model *model, uint64_t seed)
{
    dice d = {seed};
    for (int i = 1; i < model->layer_count; i++) model->layers[i].device = roll_between(&d, -1, DEVICES - 1);
    model->layers[1].device = DEVICES - 1; /* so that a replica has as many devices */
}

/* ---- what comes of them ---- */

#define NUMBERS 8192

typedef struct outcome {
    float numbers[NUMBERS]; /* weights, outputs */
    double loss, score;
} outcome;

static void train(training t, const char *backend, outcome *out)
{
    kolo_model *model = t.model();
    kolo_data *data = t.data(t.samples);
    memset(out, 0, sizeof *out);
    if (t.seed) place(model, t.seed);
    kolo_strategy strategy = {0};
    if (t.replicas) strategy = kolo_mirrored(.devices = t.replicas * (t.seed ? DEVICES : 1));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(.learning_rate = 0.01, .global_clip_norm = 1),
                                  .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 8, .precision = t.precision,
                                  .strategy = strategy, .deterministic = t.deterministic, .backend = backend),
                     KOLO_OK);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = 2, .batch_size = t.batch, .micro_batch = t.micro_batch, .verbose = KOLO_NONE);
    assert_non_null(history);
    out->loss = history->epoch[1].loss;
    bool fine = isfinite(kolo_train_on_batch(model, data, 3, 5).loss);
    out->score = kolo_evaluate(model, data).loss;
    int64_t count = kolo_count_params(model);
    assert_true(count + t.samples * 64 <= NUMBERS);
    memcpy(out->numbers, kolo_weight_get(model, 0).values, (size_t)count * sizeof(float));
    assert_int_equal(kolo_predict(model, data, out->numbers + count), KOLO_OK);
    fine = fine && isfinite(kolo_gradients(model, data, out->numbers));
    assert_true(fine);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void compare(training t, double tolerance)
{
    static outcome wanted, got;
    t.seed = 0;
    train(t, KOLO_TEST_BACKEND, &wanted);
    for (int c = 0; c < KOLO_TEST_CASES; c++) {
        t.seed = 77 + (uint64_t)c;
        train(t, KOLO_TEST_BACKEND, &got);
        double rounding = tolerance + KOLO_TEST_LOSS_ROUNDING;
        if (!(fabs(got.loss - wanted.loss) <= rounding) || !(fabs(got.score - wanted.score) <= rounding))
            fail_msg("places %llu: losses %.17g and %.17g, scores %.17g and %.17g", (unsigned long long)t.seed,
                     wanted.loss, got.loss, wanted.score, got.score);
        for (int i = 0; i < NUMBERS; i++)
            if (!(fabs((double)got.numbers[i] - (double)wanted.numbers[i]) <= tolerance))
                fail_msg("places %llu: number %d is %.9g, wanted %.9g", (unsigned long long)t.seed, i,
                         (double)got.numbers[i], (double)wanted.numbers[i]);
    }
}

static void check_model(kolo_model *(*model)(void), kolo_data *(*data)(int), int samples, int batch)
{
    training t = {.model = model, .data = data, .samples = samples, .batch = batch}, half = t, many = t;
    half.precision = KOLO_MIXED_FP16;
    half.micro_batch = batch / 3;
    many.deterministic = true;
    many.replicas = 2;
    compare(t, 0);
    compare(half, 0);
    compare(many, 0);
}

static void images_may_lie_anywhere(void **state)
{
    (void)state;
    check_model(images_model, image_data, 37, 16);
}

static void texts_may_lie_anywhere(void **state)
{
    (void)state;
    check_model(text_model, text_data, 9, 6);
}

static void own_arithmetic_may_lie_anywhere(void **state)
{
    (void)state;
    check_model(coding_model, image_data, 37, 16);
}

int main(void)
{
    setenv("KOLO_CPU_DEVICES", "6", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_may_lie_anywhere),
        cmocka_unit_test(texts_may_lie_anywhere),
        cmocka_unit_test(own_arithmetic_may_lie_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
