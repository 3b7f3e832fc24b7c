/* What stands between the sum of gradients and the optimizer's rule: batches gathered, L2, and that neither depends on
 * who computed what. */
#include "ext/core/small.h"

#include <string.h>

/* No dropout: its masks are named by batches, of which four make one here and one there. */
static kolo_model *plain_model(double l2)
{
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                                        kolo_conv2d(5, .kernel = {3, 3}, .activation = KOLO_RELU, .l2 = l2),
                                        kolo_flatten(), kolo_dense(SMALL_CLASSES, .l2 = l2 / 2));
    assert_non_null(model);
    return model;
}

typedef struct training {
    kolo_optimizer optimizer;
    kolo_strategy strategy;
    bool deterministic;
    int batch, epochs, samples;
    double l2;
} training;

/* Its weights at the end, to be freed. */
static float *train(training t)
{
    kolo_data *data = small_data(t.samples);
    kolo_model *model = plain_model(t.l2);
    assert_int_equal(kolo_compile(model, .optimizer = t.optimizer, .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .strategy = t.strategy, .deterministic = t.deterministic, .seed = 3),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, data, .batch_size = t.batch, .epochs = t.epochs, .no_shuffle = true,
                             .verbose = KOLO_NONE));
    float *weights = malloc((size_t)kolo_count_params(model) * sizeof *weights), *to = weights;
    for (int i = 0; i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        memcpy(to, weight.values, (size_t)weight.count * sizeof *to);
        to += weight.count;
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
    return weights;
}

static void compare(training a, training b, double tolerance)
{
    float *first = train(a), *second = train(b);
    int64_t count = 5 * 9 + 5 + 36 * 5 * SMALL_CLASSES + SMALL_CLASSES;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)first[i] - (double)second[i]) <= tolerance * (1 + fabs((double)first[i]))))
            fail_msg("weight %lld: %.9g and %.9g", (long long)i, (double)first[i], (double)second[i]);
    free(first);
    free(second);
}

/* In deterministic mode microbatches have 32 samples in a batch of 512 and in one of 1,024, and the sum of two batches
 * is the top of the tree of sums of the large one: the same bits. Elsewhere the order of the sums differs, by a few
 * 1e-7 of each gradient; plain descent hands that on as it is. */
static void gathered_batches_are_one(void **state)
{
    (void)state;
    kolo_optimizer two = kolo_adam(.accumulate_steps = 2), one = kolo_adam();
    compare((training){.optimizer = two, .deterministic = true, .batch = 512, .epochs = 3, .samples = 2048},
            (training){.optimizer = one, .deterministic = true, .batch = 1024, .epochs = 3, .samples = 2048}, 0);
    two = kolo_sgd(.learning_rate = 0.1, .momentum = 0.9, .accumulate_steps = 4, .clip_norm = 0.5);
    one = kolo_sgd(.learning_rate = 0.1, .momentum = 0.9, .clip_norm = 0.5);
    compare((training){.optimizer = two, .batch = 16, .epochs = 4, .samples = 256},
            (training){.optimizer = one, .batch = 64, .epochs = 4, .samples = 256}, 2e-5);
}

/* The samples of small_data(samples), `times` times. */
static kolo_data *repeated_data(int samples, int times)
{
    const int elements = SMALL_SIDE * SMALL_SIDE;
    float *features = malloc((size_t)(samples * times * elements) * sizeof *features);
    int32_t *labels = malloc((size_t)(samples * times) * sizeof *labels);
    for (int s = 0; s < samples * times; s++) {
        labels[s] = s % samples % SMALL_CLASSES;
        for (int e = 0; e < elements; e++) features[s * elements + e] = sinf((float)(s % samples * elements + e));
    }
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples * times,
                                            .shape = {SMALL_SIDE, SMALL_SIDE, 1}, .classes = SMALL_CLASSES);
    free(features);
    free(labels);
    assert_non_null(data);
    return data;
}

/* Three batches an epoch, two an update: the third waits for the next epoch's first, as if the data had been twice as
 * long; and what still waits when kolo_fit() ends goes on in the next. */
static void a_group_goes_on_over_epochs(void **state)
{
    (void)state;
    kolo_model *models[3];
    for (int m = 0; m < 3; m++) {
        kolo_data *data = repeated_data(48, m == 0 ? 2 : 1);
        models[m] = plain_model(0);
        kolo_compile(models[m], .optimizer = kolo_sgd(.learning_rate = 0.1, .accumulate_steps = 2),
                     .loss = KOLO_SPARSE_CROSSENTROPY, .deterministic = true, .seed = 3);
        for (int fit = 0; fit < (m == 2 ? 2 : 1); fit++)
            assert_non_null(kolo_fit(models[m], data, .batch_size = 16, .epochs = m == 1 ? 2 : 1, .no_shuffle = true,
                                     .verbose = KOLO_NONE));
        kolo_data_free(&data);
    }
    size_t bytes = (size_t)kolo_count_params(models[0]) * sizeof(float);
    const float *whole = kolo_weight_get(models[0], 0).values;
    assert_memory_equal(whole, kolo_weight_get(models[1], 0).values, bytes);
    assert_memory_equal(whole, kolo_weight_get(models[2], 0).values, bytes);
    for (int m = 0; m < 3; m++) kolo_model_free(&models[m]);
}

static void replicas_change_nothing(void **state)
{
    (void)state;
    const kolo_optimizer optimizers[] = {
        kolo_lamb(.global_clip_norm = 0.1, .accumulate_steps = 3), kolo_novograd(.weight_decay = 1e-3),
        kolo_lars(.clip_value = 0.01, .schedule = kolo_cosine_decay(.decay_steps = 12)),
        kolo_rmsprop(.centered = true, .momentum = 0.5, .clip_norm = 0.2)};
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++) {
        training t = {
            .optimizer = optimizers[o], .deterministic = true, .batch = 96, .epochs = 3, .samples = 384, .l2 = 1e-2};
        training many = t;
        many.strategy = kolo_mirrored(.devices = 8);
        compare(t, many, 0);
        t.deterministic = many.deterministic = false; /* replicas gather their own parts; sums in another order */
        compare(t, many, 2e-3);
    }
}

/* ---------------------------------------------------------------- L2 */

/* Two dense layers and nothing with a kink, which differences would meet. */
static kolo_model *smooth_model(double l2)
{
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(), kolo_dense(3, .l2 = l2),
                                        kolo_dense(SMALL_CLASSES, .l2 = l2 / 2));
    assert_non_null(model);
    kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = KOLO_NONE), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5,
                 .backend = "reference");
    return model;
}

static double sum_of_squares(kolo_weight weight)
{
    double sum = 0;
    for (int64_t i = 0; i < weight.count; i++) sum += (double)weight.values[i] * (double)weight.values[i];
    return sum;
}

static void nearly(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance)) fail_msg("wanted %.9g, got %.9g", wanted, got);
}

static void check_slopes(kolo_model *model, kolo_data *data, kolo_weight weight, const float *gradients)
{
    for (int64_t e = 0; e < weight.count; e += 1 + weight.count / 7) {
        float kept = weight.values[e], step = 0x1p-9f;
        weight.values[e] = kept + step;
        double up = kolo_gradients(model, data, NULL);
        weight.values[e] = kept - step;
        double down = kolo_gradients(model, data, NULL);
        weight.values[e] = kept;
        nearly((double)gradients[e], (up - down) / (2 * (double)step), 2e-4);
    }
}

/* The loss has λΣw² in it: in evaluation, in kolo_gradients() and in training. 2λw, as the loss's own differences have
 * it, is in the gradient. */
static void l2_is_in_loss_and_gradient(void **state)
{
    (void)state;
    kolo_data *data = small_data(64);
    kolo_model *with = smooth_model(0.3), *without = smooth_model(0);
    double penalty = 0.3 * sum_of_squares(kolo_weight_get(with, 0)) + 0.15 * sum_of_squares(kolo_weight_get(with, 2));
    nearly(kolo_evaluate(with, data).loss, kolo_evaluate(without, data).loss + penalty, 1e-9);
    double trained = kolo_fit(with, data, .batch_size = 24, .verbose = KOLO_NONE)->epoch[0].loss;
    nearly(trained, kolo_fit(without, data, .batch_size = 24, .verbose = KOLO_NONE)->epoch[0].loss + penalty, 1e-9);
    float *gradients = malloc((size_t)kolo_count_params(with) * sizeof *gradients), *at = gradients;
    nearly(kolo_gradients(with, data, gradients), kolo_gradients(without, data, NULL) + penalty, 1e-9);
    for (int i = 0; i < kolo_weight_count(with); i++) {
        check_slopes(with, data, kolo_weight_get(with, i), at);
        at += kolo_weight_get(with, i).count;
    }
    free(gradients);
    kolo_model_free(&with);
    kolo_model_free(&without);
    kolo_data_free(&data);
}

/* A step of descent goes by η(g + 2λw), g and λ as kolo_gradients() has them. */
static void l2_is_in_the_update(void **state)
{
    (void)state;
    kolo_data *data = small_data(32);
    kolo_model *model = plain_model(0.3);
    kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 0.5), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5);
    int64_t count = kolo_count_params(model);
    float *gradients = malloc((size_t)count * sizeof *gradients), *before = malloc((size_t)count * sizeof *before);
    float *weights = kolo_weight_get(model, 0).values;
    memcpy(before, weights, (size_t)count * sizeof *before);
    assert_true(kolo_gradients(model, data, gradients) > 0);
    assert_non_null(kolo_fit(model, data, .batch_size = 32, .verbose = KOLO_NONE));
    for (int64_t i = 0; i < count; i++) nearly((double)weights[i], (double)(before[i] - 0.5f * gradients[i]), 1e-5);
    free(gradients);
    free(before);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    setenv("KOLO_CPU_DEVICES", "8", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathered_batches_are_one), cmocka_unit_test(a_group_goes_on_over_epochs),
        cmocka_unit_test(replicas_change_nothing),  cmocka_unit_test(l2_is_in_loss_and_gradient),
        cmocka_unit_test(l2_is_in_the_update),
    };
    setenv("KOLO_THREADS", "2",
           1); /* fewer cores than devices, which then are computed together; and a core for each */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    setenv("KOLO_THREADS", "8", 1);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
