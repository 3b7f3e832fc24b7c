/* The sampling layer of variational autoencoders: its draws are standard normal and the same whoever computes, its
 * divergence and gradients are those of the formulas, and samples that pad a microbatch leave no trace. */
#include "ext/backend/rig.h"

#include "model/model.h"
#include "core/random.h"

enum { code = 6, microbatch = 4, classes = 3 };

static kolo_model *autoencoder(double kl_weight)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 8);
    kolo_tensor mean = kolo_apply(kolo_dense(code), x), log_variance = kolo_apply(kolo_dense(code), x);
    kolo_tensor z = kolo_apply(kolo_gaussian_sample(.kl_weight = kl_weight), mean, log_variance);
    kolo_graph_output(model, kolo_apply(kolo_dense(classes), z));
    return model;
}

static kolo_data *some_data(int samples)
{
    dice d = {1};
    float *x = numbers(&d, samples * 8, 0);
    int32_t labels[64];
    for (int s = 0; s < samples; s++) labels[s] = s % classes;
    kolo_data *data = kolo_data_from_arrays(x, labels, .samples = samples, .shape = {8}, .classes = classes);
    free(x);
    return data;
}

/* Gradients without chance, by central differences of the loss: the divergence's, and through the mean. */
static void test_gradients(void **state)
{
    (void)state;
    kolo_data *data = some_data(7);
    kolo_model *model = autoencoder(0.25);
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .backend = "reference", .seed = 2));
    float *gradients = malloc((size_t)kolo_count_params(model) * sizeof *gradients), *gradient = gradients;
    assert_non_null(gradients);
    kolo_gradients(model, data, gradients);
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++, gradient++) {
            float kept = weight.values[i];
            weight.values[i] = kept + 0x1p-8f;
            double up = kolo_gradients(model, data, NULL);
            weight.values[i] = kept - 0x1p-8f;
            double down = kolo_gradients(model, data, NULL);
            weight.values[i] = kept;
            assert_true(fabs((up - down) * 0x1p7 - (double)*gradient) < 2e-4);
        }
    }
    free(gradients);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* The weights after a step of plain descent: with loss scaling the divergence's gradient is scaled, too. */
static float *weights_after_a_step(kolo_precision precision, kolo_data *data)
{
    kolo_model *model = autoencoder(2);
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_sgd(.learning_rate = 0.5),
                        .precision = precision, .backend = "reference", .seed = 2));
    assert_non_null(kolo_fit(model, data, .batch_size = 7, .epochs = 1, .verbose = KOLO_NONE));
    float *weights = malloc((size_t)kolo_count_params(model) * sizeof *weights), *to = weights;
    assert_non_null(weights);
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        memcpy(to, weight.values, (size_t)weight.count * sizeof *to);
        to += weight.count;
    }
    kolo_model_free(&model);
    return weights;
}

static void test_half_precision(void **state)
{
    (void)state;
    kolo_data *data = some_data(7);
    float *wanted = weights_after_a_step(KOLO_FLOAT32, data), *got = weights_after_a_step(KOLO_MIXED_FP16, data);
    for (int i = 0; i < 2 * (8 * code + code) + code * classes + classes; i++)
        if (!(fabs((double)wanted[i] - (double)got[i]) <= 0.01))
            fail_msg("weight %d: %g in float32, %g in float16", i, (double)wanted[i], (double)got[i]);
    free(wanted);
    free(got);
    kolo_data_free(&data);
}

/* The layer's operations on inputs that are written; forward and backward. */
typedef struct drawn {
    rig *r;
    int mean, log_variance, dz, z, dmean, dlog_variance;
} drawn;

static drawn draw(const kolo_backend *backend, kolo_model *model, bool chance, int samples, uint64_t seed)
{
    drawn g = {.r = rig_new(backend, KOLO_FLOAT32, microbatch)};
    rig *r = g.r;
    const kolo_layer_node *node = &model->layers[3];
    dice d = {seed};
    g.mean = rig_input(r, node->out);
    g.log_variance = rig_input(r, node->out);
    g.dz = rig_input(r, node->out);
    kolo_layer_flow flow = {.node = node, .xs = {g.mean, g.log_variance}, .need_dxs = {true, true}, .dy = g.dz};
    rig_ok(node->recipe.kind->forward(&r->plan, &flow));
    rig_ok(node->recipe.kind->backward(&r->plan, &flow));
    g.z = flow.y;
    g.dmean = flow.dxs[0];
    g.dlog_variance = flow.dxs[1];
    r->plan.dropout = chance;
    rig_prepare(r);
    r->call.samples = samples;
    const int fed[] = {g.mean, g.log_variance, g.dz};
    for (int i = 0; i < 3; i++) {
        float *values = numbers(&d, microbatch * code, 0);
        rig_write(r, fed[i], values);
        free(values);
    }
    rig_run(r);
    return g;
}

static void test_formulas(void **state)
{
    (void)state;
    kolo_model *model = autoencoder(0.5);
    drawn g = draw(&kolo_reference_backend, model, true, microbatch, 9);
    double *mean = rig_read(g.r, g.mean), *log_variance = rig_read(g.r, g.log_variance), *dz = rig_read(g.r, g.dz);
    double *z = rig_read(g.r, g.z), *dmean = rig_read(g.r, g.dmean), *dlog = rig_read(g.r, g.dlog_variance), kl = 0;
    uint64_t key = kolo_random_key(kolo_random_key(7, KOLO_RANDOM_SAMPLE, 3), KOLO_RANDOM_SAMPLE, 3); /* rig's */
    for (int i = 0; i < microbatch * code; i++) {
        double noise = kolo_random_normal(key, (uint64_t)i % code, 64 + (uint64_t)i / code);
        double variance = exp(log_variance[i]);
        assert_true(fabs(z[i] - (mean[i] + sqrt(variance) * noise)) < 1e-6);
        assert_true(fabs(dmean[i] - (dz[i] + 0.5 * mean[i])) < 1e-6);
        assert_true(fabs(dlog[i] - (dz[i] * sqrt(variance) * noise / 2 + 0.25 * (variance - 1))) < 1e-6);
        kl += 0.25 * (mean[i] * mean[i] + variance - 1 - log_variance[i]);
    }
    assert_true(fabs(g.r->totals.loss - kl) < 1e-9);
    double *all[] = {mean, log_variance, dz, z, dmean, dlog};
    for (int i = 0; i < 6; i++) free(all[i]);
    rig_free(g.r);
    kolo_model_free(&model);
}

/* The mean where there is no chance; nothing from samples of padding. */
static void test_padding(void **state)
{
    (void)state;
    kolo_model *model = autoencoder(1);
    drawn g = draw(&kolo_reference_backend, model, false, 1, 4);
    double *mean = rig_read(g.r, g.mean), *log_variance = rig_read(g.r, g.log_variance), *z = rig_read(g.r, g.z);
    double *dmean = rig_read(g.r, g.dmean), *dlog = rig_read(g.r, g.dlog_variance), kl = 0;
    for (int i = 0; i < code; i++) kl += (mean[i] * mean[i] + exp(log_variance[i]) - 1 - log_variance[i]) / 2;
    for (int i = 0; i < microbatch * code; i++) assert_true(z[i] == mean[i]);
    for (int i = code; i < microbatch * code; i++) assert_true(dmean[i] == 0 && dlog[i] == 0);
    assert_true(fabs(g.r->totals.loss - kl) < 1e-9);
    double *all[] = {mean, log_variance, z, dmean, dlog};
    for (int i = 0; i < 5; i++) free(all[i]);
    rig_free(g.r);
    kolo_model_free(&model);
}

/* Of 40,000 draws the first four moments are 0, 1, 0 and 3 within five standard deviations. */
static void test_distribution(void **state)
{
    (void)state;
    enum { draws = 40000 };
    double moment[4] = {0};
    const double wanted[] = {0, 1, 0, 3}, variance[] = {1, 2, 15, 96};
    for (int i = 0; i < draws; i++) {
        double x = kolo_random_normal(11, (uint64_t)i % 7, (uint64_t)i / 7), power = 1;
        for (int m = 0; m < 4; m++) moment[m] += (power *= x) / draws;
    }
    for (int m = 0; m < 4; m++) assert_true(fabs(moment[m] - wanted[m]) < 5 * sqrt(variance[m] / draws));
}

static double trained(const char *backend, uint64_t seed, int devices)
{
    kolo_data *data = some_data(50);
    kolo_model *model = autoencoder(1e-3);
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_sgd(.learning_rate = 0.1),
                        .backend = backend, .seed = seed, .deterministic = true,
                        .strategy = kolo_mirrored(.devices = devices)));
    const kolo_history *history = kolo_fit(model, data, .epochs = 2, .batch_size = 16, .verbose = KOLO_NONE);
    assert_non_null(history);
    double loss = history->epoch[1].loss;
    kolo_model_free(&model);
    kolo_data_free(&data);
    return loss;
}

/* The same draws in both backends, and however many devices share a batch; others by another seed. */
static void test_training(void **state)
{
    (void)state;
    double reference = trained("reference", 5, 1), fast = trained("onednn", 5, 1);
    assert_true(fabs(fast - reference) < 1e-5);
    assert_true(fabs(trained("reference", 6, 1) - reference) > 1e-4);
    for (int devices = 2; devices <= 4; devices++) assert_true(trained("onednn", 5, devices) == fast);
}

static void test_sentences(void **state)
{
    (void)state;
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 8);
    kolo_tensor mean = kolo_apply(kolo_dense(3), x), log_variance = kolo_apply(kolo_dense(4), x);
    kolo_apply(kolo_gaussian_sample(), mean, log_variance);
    assert_non_null(strstr(kolo_last_error().text, "layer 3 (gaussian_sample): wanted a mean and a log variance of one "
                                                   "shape, got {3} and {4}"));
    kolo_model_free(&model);
    kolo_clear_error();
    model = autoencoder(-1);
    assert_non_null(strstr(kolo_last_error().text, "kl_weight: wanted at least 0, got -1"));
    kolo_model_free(&model);
    kolo_clear_error();
}

int main(void)
{
    setenv("KOLO_CPU_DEVICES", "4", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_half_precision), cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_padding),   cmocka_unit_test(test_distribution),   cmocka_unit_test(test_training),
        cmocka_unit_test(test_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
