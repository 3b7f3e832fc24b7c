/* A number that is none is not hidden: wherever one stands, in a weight before a relu or in the features, the loss is
 * NaN in both backends, and so a run that is broken shows. */
#include "rig.h"
#include "tested.h"
#include "runtime/runtime.h"

static double loss_of_broken(const char *backend, kolo_precision precision, int broken_weight)
{
    float features[2 * 6 * 6 * 3] = {0};
    const int32_t labels[2] = {0, 1};
    if (broken_weight < 0) features[0] = NAN;
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = 2, .shape = {6, 6, 3}, .classes = 2);
    kolo_model *model = kolo_sequential(kolo_input(6, 6, 3), kolo_conv2d(17, .kernel = {3, 3}, .activation = KOLO_RELU),
                                        kolo_conv2d(16, .kernel = {1, 1}, .stride = {2, 2}, .activation = KOLO_RELU),
                                        kolo_dense(5, .activation = KOLO_RELU), kolo_activate(KOLO_RELU),
                                        kolo_flatten(), kolo_dense(9, .activation = KOLO_RELU), kolo_dense(2));
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .backend = backend, .precision = precision,
                        .seed = 1));
    if (broken_weight >= 0) kolo_weight_get(model, broken_weight).values[0] = NAN;
    double loss = kolo_gradients(model, data, NULL);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return loss;
}

static void check(const char *backend, kolo_precision precision)
{
    for (int weight = -1; weight < 10; weight++) {
        double loss = loss_of_broken(backend, precision, weight);
        if (!isnan(loss)) print_error("%s, precision %d, weight %d: loss %g\n", backend, (int)precision, weight, loss);
        assert_true(isnan(loss));
    }
}

/* Wherever it stands in a window that slides over 6 x 6 pixels, and whatever stands around it. */
static void check_pooled(const char *backend, kolo_precision precision, float around)
{
    for (int pixel = 0; pixel < 36; pixel++) {
        float features[36 * 3], gradients[2 * (3 * 3 * 3 + 1)];
        const int32_t label = 0;
        for (int i = 0; i < 36 * 3; i++) features[i] = around;
        features[3 * pixel + 1] = NAN;
        kolo_data *data = kolo_data_from_arrays(features, &label, .samples = 1, .shape = {6, 6, 3}, .classes = 2);
        kolo_model *model = kolo_sequential(kolo_input(6, 6, 3), kolo_max_pool2d(3, .stride = {1, 1}),
                                            kolo_max_pool2d(2, 2), kolo_global_max_pool2d(), kolo_dense(2));
        rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .backend = backend, .precision = precision,
                            .seed = 1));
        double loss = kolo_gradients(model, data, gradients);
        if (!isnan(loss)) print_error("%s, precision %d, pixel %d: loss %g\n", backend, (int)precision, pixel, loss);
        assert_true(isnan(loss));
        kolo_model_free(&model);
        kolo_data_free(&data);
    }
}

static void check_all(const char *backend, kolo_precision precision)
{
    check(backend, precision);
    check_pooled(backend, precision, -1);
    check_pooled(backend, precision, 1);
}

static void test_reference(void **state)
{
    (void)state;
    check_all("reference", KOLO_FLOAT32);
}

static void test_tested(void **state)
{
    (void)state;
    const kolo_backend *backend;
    check_all(KOLO_TEST_BACKEND, KOLO_FLOAT32);
    if (kolo_backend_find(KOLO_TEST_BACKEND, KOLO_MIXED_BF16, &backend) == KOLO_OK)
        check_all(KOLO_TEST_BACKEND, KOLO_MIXED_BF16);
    else kolo_failure_take();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_tested)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
