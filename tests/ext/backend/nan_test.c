/* A number that is none is not hidden: wherever one stands, in a weight before a relu or in the features, the loss is
 * NaN in both backends, and so a run that is broken shows. */
#include "rig.h"

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

static void test_reference(void **state)
{
    (void)state;
    check("reference", KOLO_FLOAT32);
}

static void test_onednn(void **state)
{
    (void)state;
    const kolo_backend *backend;
    check("onednn", KOLO_FLOAT32);
    if (kolo_backend_find("onednn", KOLO_MIXED_BF16, &backend) == KOLO_OK) check("onednn", KOLO_MIXED_BF16);
    else kolo_failure_take();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_onednn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
