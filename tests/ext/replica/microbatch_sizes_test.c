/* A model that is trained with microbatches of several sizes, one after the other. */
#include "ext/core/small.h"

static kolo_model *small_network(void)
{
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                                        kolo_conv2d(5, .kernel = {3, 3}, .activation = KOLO_RELU, .l2 = 1e-2),
                                        kolo_flatten(), kolo_dense(SMALL_CLASSES));
    assert_non_null(model);
    return model;
}

/* Each size of microbatches has a plan, which may lie where the plan before it lay: nothing of that one stays. */
static void sizes_of_microbatches_change_nothing(void **state)
{
    (void)state;
    const int sizes[] = {32, 8, 16, 4, 32, 8};
    kolo_data *data = small_data(96);
    kolo_model *models[2] = {small_network(), small_network()};
    for (int m = 0; m < 2; m++) {
        kolo_compile(models[m], .optimizer = kolo_sgd(.learning_rate = 0.05, .momentum = 0.9),
                     .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            assert_non_null(kolo_fit(models[m], data, .batch_size = 32, .micro_batch = m == 0 ? 32 : sizes[i],
                                     .no_shuffle = true, .verbose = KOLO_NONE));
    }
    const float *one = kolo_weight_get(models[0], 0).values, *other = kolo_weight_get(models[1], 0).values;
    for (int64_t i = 0; i < kolo_count_params(models[0]); i++)
        if (!(fabs((double)one[i] - (double)other[i]) <= 1e-4))
            fail_msg("weight %lld: %.9g and %.9g", (long long)i, (double)one[i], (double)other[i]);
    for (int m = 0; m < 2; m++) kolo_model_free(&models[m]);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_of_microbatches_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
