/* What counts in a loss, and as what: weights of samples and of classes, targets, autoencoders; the parts of the data
 * that are validated; and that what does not fit is told. On the reference backend. */
#include "ext/core/small.h"

#include <string.h>

enum { SAMPLES = 37, FEATURES = 4, CLASSES = 3 };

static float features[SAMPLES * FEATURES], weights[SAMPLES], targets[SAMPLES * CLASSES];
static int32_t labels[SAMPLES];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES * FEATURES; i++) features[i] = (float)sin(1.3 * i + 0.7 * (i % 5));
    for (int s = 0; s < SAMPLES; s++) {
        labels[s] = s * 5 % 7 % CLASSES;
        weights[s] = (float)(s % 4) * 0.75f;
        for (int c = 0; c < CLASSES; c++)
            targets[s * CLASSES + c] = features[s * FEATURES + c] - 0.5f * features[s * FEATURES + 3];
    }
    return 0;
}

#define DATA(...) kolo_data_from_arrays(features, __VA_ARGS__, .samples = SAMPLES, .shape = {FEATURES})

static kolo_model *compiled(kolo_loss loss, int outputs)
{
    kolo_model *model =
        kolo_sequential(kolo_input(FEATURES), kolo_dense(6, .activation = KOLO_RELU), kolo_dense(outputs));
    assert_int_equal(kolo_compile(model, .loss = loss, .metrics = {KOLO_ACCURACY}, .seed = 9, .backend = "reference",
                                  .optimizer = kolo_sgd(.learning_rate = 0.1)),
                     KOLO_OK);
    return model;
}

/* The loss of each sample alone. */
static void losses_of(kolo_model *model, kolo_data *data, double *losses)
{
    for (int s = 0; s < SAMPLES; s++) losses[s] = kolo_test_on_batch(model, data, s, 1).loss;
}

/* Keras 3: the weighted losses are added up and divided by the number of samples, not by the sum of the weights. */
static void weights_scale_losses_and_not_metrics(void **state)
{
    (void)state;
    double losses[SAMPLES], sum = 0;
    kolo_data *plain = DATA(labels), *weighted = DATA(labels, .weights = weights);
    kolo_model *model = compiled(KOLO_SPARSE_CROSSENTROPY, CLASSES);
    losses_of(model, plain, losses);
    for (int s = 0; s < SAMPLES; s++) sum += losses[s] * (double)weights[s];
    kolo_scores with = kolo_evaluate(model, weighted), without = kolo_evaluate(model, plain);
    assert_float_equal(with.loss, sum / SAMPLES, 1e-12);
    assert_true(fabs(with.loss - without.loss) > 0.01);
    assert_float_equal(with.accuracy, without.accuracy, 0);
    assert_float_equal(kolo_gradients(model, weighted, NULL), sum / SAMPLES, 1e-12);
    kolo_model_free(&model);
    kolo_data_free(&plain);
    kolo_data_free(&weighted);
}

/* The gradient of the weighted data is the weighted mean of those of the samples. */
static void weights_scale_gradients(void **state)
{
    (void)state;
    kolo_data *plain = DATA(labels), *weighted = DATA(labels, .weights = weights);
    kolo_model *model = compiled(KOLO_SPARSE_CROSSENTROPY, CLASSES);
    float got[128], one[128];
    double sum[128] = {0};
    int64_t count = kolo_count_params(model);
    assert_true(count <= 128);
    for (int s = 0; s < SAMPLES; s++) {
        kolo_data *sample = kolo_data_slice(plain, s, 1);
        kolo_gradients(model, sample, one);
        for (int64_t i = 0; i < count; i++) sum[i] += (double)one[i] * (double)weights[s] / SAMPLES;
        kolo_data_free(&sample);
    }
    kolo_gradients(model, weighted, got);
    for (int64_t i = 0; i < count; i++) assert_float_equal(got[i], sum[i], 1e-6);
    kolo_model_free(&model);
    kolo_data_free(&plain);
    kolo_data_free(&weighted);
}

/* A weight of 2 is a sample that is there twice, over any number of devices; of the data at hand, whatever the fit
 * before had. */
static void fits_follow_the_weights_at_hand(void **state)
{
    (void)state;
    float twice[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) twice[s] = 2;
    for (int devices = 1; devices <= 4; devices += 3) {
        kolo_data *plain = DATA(labels), *doubled = DATA(labels, .weights = twice);
        kolo_model *model = compiled(KOLO_SPARSE_CROSSENTROPY, CLASSES);
        assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 9, .deterministic = true,
                                      .optimizer = kolo_sgd(.learning_rate = 1e-30),
                                      .strategy = kolo_mirrored(.devices = devices)),
                         KOLO_OK);
        double loss[3];
        kolo_data *order[] = {plain, doubled, plain};
        for (int i = 0; i < 3; i++) {
            const kolo_history *history =
                kolo_fit(model, order[i], .batch_size = 8, .verbose = KOLO_NONE, .validation_data = order[(i + 1) % 2]);
            loss[i] = history->epoch[0].loss;
            assert_float_equal(history->epoch[0].val_loss, kolo_evaluate(model, order[(i + 1) % 2]).loss, 1e-12);
        }
        assert_true(fabs(loss[1] - 2 * loss[0]) < 1e-9);
        assert_float_equal(loss[2], loss[0], 1e-9);
        kolo_model_free(&model);
        kolo_data_free(&plain);
        kolo_data_free(&doubled);
    }
}

/* .class_weight is the same as weights of the samples. */
static void classes_are_weighted(void **state)
{
    (void)state;
    float each[SAMPLES], zeros[SAMPLES * CLASSES] = {0};
    for (int s = 0; s < SAMPLES; s++) {
        each[s] = weights[s] * (labels[s] == 0 ? 3.0f : labels[s] == 2 ? 0.0f : 1.0f);
        zeros[s * CLASSES + labels[s]] = 1;
    }
    kolo_data *by_class = DATA(labels, .weights = weights), *by_sample = DATA(labels, .weights = each);
    kolo_data *by_target = DATA(NULL, .targets = zeros, .target_shape = {CLASSES}, .weights = weights);
    kolo_model *a = compiled(KOLO_CATEGORICAL_CROSSENTROPY, CLASSES),
               *b = compiled(KOLO_CATEGORICAL_CROSSENTROPY, CLASSES),
               *c = compiled(KOLO_CATEGORICAL_CROSSENTROPY, CLASSES);
    double with =
        kolo_fit(a, by_class, .epochs = 3, .verbose = KOLO_NONE, .class_weight = {3, [2] = KOLO_NONE})->epoch[2].loss;
    assert_float_equal(kolo_fit(b, by_sample, .epochs = 3, .verbose = KOLO_NONE)->epoch[2].loss, with, 0);
    assert_float_equal(kolo_fit(c, by_target, .epochs = 3, .verbose = KOLO_NONE, .class_weight = {3, [2] = KOLO_NONE})
                           ->epoch[2]
                           .loss,
                       with, 1e-12);
    assert_null(kolo_fit(a, by_class, .class_weight = {[3] = 2}));
    assert_non_null(strstr(kolo_last_error().text, ".class_weight[3]: wanted a class of the data, which has 3"));
    kolo_clear_error();
    assert_null(kolo_fit(a, by_class, .class_weight = {-1}));
    kolo_clear_error();
    kolo_model_free(&a), kolo_model_free(&b), kolo_model_free(&c);
    kolo_data_free(&by_class), kolo_data_free(&by_sample), kolo_data_free(&by_target);
}

/* ---------------------------------------------------------------- targets */

static void targets_are_learnt(void **state)
{
    (void)state;
    kolo_data *data = DATA(NULL, .targets = targets, .target_shape = {CLASSES});
    kolo_model *model = compiled(KOLO_MSE, CLASSES);
    float outputs[SAMPLES * CLASSES];
    double sum = 0;
    kolo_predict(model, data, outputs);
    for (int i = 0; i < SAMPLES * CLASSES; i++) sum += pow((double)outputs[i] - (double)targets[i], 2);
    assert_float_equal(kolo_evaluate(model, data).loss, sum / (SAMPLES * CLASSES), 1e-6);
    const kolo_history *history = kolo_fit(model, data, .epochs = 60, .batch_size = 8, .verbose = KOLO_NONE);
    assert_true(history->epoch[59].loss < 0.1 * history->epoch[0].loss);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* With one output a label is a number; with several it is one-hot. */
static void labels_count_as_targets(void **state)
{
    (void)state;
    float number[SAMPLES], hot[SAMPLES * CLASSES] = {0};
    for (int s = 0; s < SAMPLES; s++) {
        number[s] = (float)labels[s];
        hot[s * CLASSES + labels[s]] = 1;
    }
    kolo_data *by_label = DATA(labels), *by_number = DATA(NULL, .targets = number),
              *by_hot = DATA(NULL, .targets = hot, .target_shape = {CLASSES});
    kolo_model *one = compiled(KOLO_MAE, 1), *three = compiled(KOLO_BINARY_CROSSENTROPY, CLASSES);
    assert_float_equal(kolo_evaluate(one, by_label).loss, kolo_evaluate(one, by_number).loss, 0);
    assert_float_equal(kolo_evaluate(three, by_label).loss, kolo_evaluate(three, by_hot).loss, 0);
    kolo_model_free(&one), kolo_model_free(&three);
    kolo_data_free(&by_label), kolo_data_free(&by_number), kolo_data_free(&by_hot);
}

static void an_autoencoder_learns_its_input(void **state)
{
    (void)state;
    kolo_data *images = small_data(120), *data = kolo_data_autoencoder(images);
    kolo_data_free(&images);
    kolo_data *part = kolo_data_slice(data, 100, 20);
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(),
                                        kolo_dense(8, .activation = KOLO_RELU), kolo_dense(SMALL_SIDE * SMALL_SIDE));
    assert_int_equal(kolo_compile(model, .loss = KOLO_MSE, .optimizer = kolo_adam(), .seed = 2), KOLO_OK);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = 40, .batch_size = 8, .validation_data = part, .verbose = KOLO_NONE);
    assert_true(history->epoch[39].loss < 0.4 * history->epoch[0].loss);
    float x[SMALL_SIDE * SMALL_SIDE], y[SMALL_SIDE * SMALL_SIDE];
    double sum = 0;
    kolo_data_sample(data, 110, x, NULL);
    kolo_predict_on_batch(model, data, 110, 1, y);
    for (int i = 0; i < SMALL_SIDE * SMALL_SIDE; i++) sum += pow((double)x[i] - (double)y[i], 2);
    assert_float_equal(kolo_test_on_batch(model, part, 10, 1).loss, sum / (SMALL_SIDE * SMALL_SIDE), 1e-5);
    kolo_model_free(&model);
    kolo_data_free(&data), kolo_data_free(&part);
}

static void fails_with(const char *part)
{
    if (!strstr(kolo_last_error().text, part)) fail_msg("wanted \"%s\" in \"%s\"", part, kolo_last_error().text);
    kolo_clear_error();
}

static void misfits_are_one_sentence(void **state)
{
    (void)state;
    kolo_data *bare = DATA(NULL), *numbers = DATA(NULL, .targets = targets, .target_shape = {CLASSES}),
              *one = DATA(NULL, .targets = targets), *classes = DATA(labels);
    kolo_model *sparse = compiled(KOLO_SPARSE_CROSSENTROPY, CLASSES), *mse = compiled(KOLO_MSE, CLASSES),
               *binary = compiled(KOLO_BINARY_CROSSENTROPY, 1), *few = compiled(KOLO_SPARSE_CROSSENTROPY, 2);
    assert_true(isnan(kolo_evaluate(sparse, bare).loss));
    fails_with("data: wanted labels, got data without");
    assert_true(isnan(kolo_evaluate(sparse, numbers).loss));
    fails_with("data: wanted labels, got data with targets alone");
    assert_true(isnan(kolo_evaluate(mse, bare).loss));
    fails_with("data: wanted targets or labels, got data without");
    assert_null(kolo_fit(mse, classes, .validation_data = one));
    fails_with(".validation_data: wanted targets of {3}, as the last layer gives, got {1}");
    assert_true(isnan(kolo_evaluate(binary, classes).loss));
    fails_with("wanted labels 0 and 1, since binary_crossentropy has one output here, got 3 classes");
    assert_true(isnan(kolo_evaluate(few, classes).loss));
    fails_with("wanted labels from 0 to 1, as many as the last layer has outputs, got 3 classes");
    targets[5] = NAN;
    assert_null(DATA(NULL, .targets = targets));
    fails_with("target 5: wanted a finite number, got nan");
    weights[3] = -1;
    assert_null(DATA(labels, .weights = weights));
    fails_with("weight 3: wanted a finite number of at least 0, got -1");
    fill(NULL);
    kolo_model_free(&sparse), kolo_model_free(&mse), kolo_model_free(&binary), kolo_model_free(&few);
    kolo_data_free(&bare), kolo_data_free(&numbers), kolo_data_free(&one), kolo_data_free(&classes);
}

/* ---------------------------------------------------------------- what is validated, and when */

static void the_last_samples_are_split_off(void **state)
{
    (void)state;
    kolo_data *data = DATA(labels), *last = kolo_data_slice(data, 27, 10);
    kolo_model *model = compiled(KOLO_SPARSE_CROSSENTROPY, CLASSES);
    const kolo_history *history = kolo_fit(model, data, .epochs = 2, .validation_split = 0.25, .verbose = KOLO_NONE);
    assert_int_equal(history->epoch[0].images, 27); /* Keras's rule: floor(37 · 0.75) are trained */
    assert_float_equal(history->epoch[1].val_loss, kolo_evaluate(model, last).loss, 0);
    assert_null(kolo_fit(model, data, .validation_split = 1));
    fails_with(".validation_split: wanted 0 to below 1, got 1");
    assert_null(kolo_fit(model, data, .validation_split = 0.5, .validation_data = last));
    fails_with("wanted .validation_data or .validation_split, got both");
    kolo_model_free(&model);
    kolo_data_free(&data), kolo_data_free(&last);
}

static int first_epoch, epochs_seen;

static void count_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)self, (void)logs;
    if (epochs_seen++ == 0) first_epoch = epoch;
}

static void epochs_go_on_and_some_are_validated(void **state)
{
    (void)state;
    kolo_data *data = DATA(labels);
    kolo_model *model = compiled(KOLO_SPARSE_CROSSENTROPY, CLASSES);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = 9, .initial_epoch = 4, .validation_data = data, .validation_freq = 3,
                 .verbose = KOLO_NONE, .callbacks = {{.on_epoch_end = count_epoch}});
    assert_int_equal(history->epochs, 5);
    assert_int_equal(history->first_epoch, 4);
    assert_int_equal(first_epoch, 4);
    assert_int_equal(epochs_seen, 5);
    for (int e = 0; e < 5; e++) assert_int_equal(!isnan(history->epoch[e].val_loss), (4 + e + 1) % 3 == 0);
    assert_int_equal(kolo_fit(model, data, .epochs = 4, .initial_epoch = 4, .verbose = KOLO_NONE)->epochs, 0);
    assert_null(kolo_fit(model, data, .epochs = 4, .initial_epoch = 5));
    fails_with(".initial_epoch: wanted 0 to 4, the .epochs, got 5");
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- loops of one's own */

/* A loop over the batches does what kolo_fit does without shuffling, to the last bit, on any number of devices. */
static void a_loop_of_ones_own_equals_fit(void **state)
{
    (void)state;
    kolo_data *data = small_data(70);
    for (int devices = 1; devices <= 3; devices += 2) {
        kolo_model *by_fit = small_model(), *by_loop = small_model();
        kolo_model *both[] = {by_fit, by_loop};
        for (int i = 0; i < 2; i++)
            assert_int_equal(kolo_compile(both[i], .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_adam(),
                                          .seed = 6, .metrics = {KOLO_ACCURACY, KOLO_TOP_K(2)}, .deterministic = true,
                                          .strategy = kolo_mirrored(.devices = devices), .backend = "reference"),
                             KOLO_OK);
        double loss = 0, right = 0;
        const kolo_history *history =
            kolo_fit(by_fit, data, .batch_size = 32, .no_shuffle = true, .verbose = KOLO_NONE);
        for (int first = 0; first < 70; first += 32) {
            int count = first + 32 <= 70 ? 32 : 70 - first;
            kolo_scores scores = kolo_train_on_batch(by_loop, data, first, count);
            assert_int_equal(scores.samples, count);
            loss += scores.loss * count;
            right += scores.metric[1] * count;
        }
        assert_float_equal(loss / 70, history->epoch[0].loss, 1e-12);
        assert_float_equal(right / 70, history->epoch[0].metric[1], 1e-12);
        for (int w = 0; w < kolo_weight_count(by_fit); w++) {
            kolo_weight a = kolo_weight_get(by_fit, w), b = kolo_weight_get(by_loop, w);
            assert_memory_equal(a.values, b.values, (size_t)a.count * sizeof(float));
        }
        assert_float_equal(kolo_evaluate(by_fit, data).loss, kolo_evaluate(by_loop, data).loss, 0);
        kolo_model_free(&by_fit), kolo_model_free(&by_loop);
    }
    kolo_data_free(&data);
}

static void loops_are_checked_and_stopped(void **state)
{
    (void)state;
    kolo_data *data = DATA(labels);
    kolo_model *model = compiled(KOLO_SPARSE_CROSSENTROPY, CLASSES);
    assert_true(isnan(kolo_train_on_batch(model, data, 30, 8).loss));
    fails_with("kolo_train_on_batch: wanted samples within 0 to 36, got 8 from 30 on");
    assert_true(isnan(kolo_test_on_batch(model, data, -1, 1).loss));
    fails_with("kolo_test_on_batch: wanted samples within");
    float outputs[CLASSES];
    assert_int_equal(kolo_predict_on_batch(model, data, 0, 0, outputs), KOLO_INVALID);
    kolo_clear_error();
    assert_true(isnan(kolo_train_on_batch(NULL, data, 0, 1).loss));
    kolo_clear_error();
    kolo_request_stop();
    assert_true(isnan(kolo_train_on_batch(model, data, 0, 8).loss));
    fails_with("stopped before it was done, as kolo_request_stop() asked");
    assert_true(isfinite(kolo_train_on_batch(model, data, 0, 8).loss));
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_scale_losses_and_not_metrics),
        cmocka_unit_test(weights_scale_gradients),
        cmocka_unit_test(fits_follow_the_weights_at_hand),
        cmocka_unit_test(classes_are_weighted),
        cmocka_unit_test(targets_are_learnt),
        cmocka_unit_test(labels_count_as_targets),
        cmocka_unit_test(an_autoencoder_learns_its_input),
        cmocka_unit_test(misfits_are_one_sentence),
        cmocka_unit_test(the_last_samples_are_split_off),
        cmocka_unit_test(epochs_go_on_and_some_are_validated),
        cmocka_unit_test(a_loop_of_ones_own_equals_fit),
        cmocka_unit_test(loops_are_checked_and_stopped),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
