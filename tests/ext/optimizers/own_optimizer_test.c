/* An optimizer of a learner's own, which only the host can compute, of weights with a penalty: its loss and its weights
 * are SGD's. */
#include "ext/core/small.h"

#include "ext/optimizers/own_optimizer.h"

static kolo_model *penalised_model(void)
{
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                                        kolo_conv2d(5, .kernel = {3, 3}, .activation = KOLO_RELU, .l2 = 0.1),
                                        kolo_flatten(), kolo_dense(SMALL_CLASSES, .l2 = 0.05));
    assert_non_null(model);
    return model;
}

static void is_sgd_with_a_penalty(void **state)
{
    (void)state;
    const kolo_optimizer optimizers[2] = {kolo_sgd(.learning_rate = 0.05), {.kind = &own_kind}};
    kolo_data *data = small_data(96);
    kolo_model *models[2];
    double loss[2];
    for (int m = 0; m < 2; m++) {
        models[m] = penalised_model();
        assert_int_equal(kolo_compile(models[m], .optimizer = optimizers[m], .loss = KOLO_SPARSE_CROSSENTROPY,
                                      .seed = 3),
                         KOLO_OK);
        const kolo_history *history =
            kolo_fit(models[m], data, .batch_size = 32, .epochs = 3, .no_shuffle = true, .verbose = KOLO_NONE);
        assert_non_null(history);
        loss[m] = history->epoch[2].loss;
    }
    assert_float_equal(loss[1], loss[0], 1e-4);
    const float *one = kolo_weight_get(models[0], 0).values, *other = kolo_weight_get(models[1], 0).values;
    for (int64_t i = 0; i < kolo_count_params(models[0]); i++) assert_float_equal(other[i], one[i], 1e-5);
    for (int m = 0; m < 2; m++) kolo_model_free(&models[m]);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_sgd_with_a_penalty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
