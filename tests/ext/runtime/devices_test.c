/* The invariant: N devices equal one on the same global batch. */
#include "ext/core/small.h"

#include <string.h>

#define WEIGHTS 1024

/* Trains and returns the weights. 90 samples in batches of 37: short batches, and microbatches that do not fill up. */
static void train(int devices, bool deterministic, const char *backend, float *weights, kolo_epoch *last)
{
    kolo_data *data = small_data(90);
    kolo_model *model = small_model();
    kolo_strategy strategy = devices == 0 ? kolo_one_device() : kolo_mirrored(.devices = devices);
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                  .metrics = {KOLO_ACCURACY}, .strategy = strategy, .deterministic = deterministic,
                                  .backend = backend),
                     KOLO_OK);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = 3, .batch_size = 37, .validation_data = data, .verbose = KOLO_NONE);
    assert_non_null(history);
    assert_int_equal(history->devices, devices ? devices : 1);
    *last = history->epoch[2];
    last->seconds = last->images_per_second = 0;
    int64_t count = kolo_count_params(model);
    assert_true(count <= WEIGHTS);
    memset(weights, 0, WEIGHTS * sizeof *weights);
    memcpy(weights, kolo_weight_get(model, 0).values, (size_t)count * sizeof *weights);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void deterministic_mode_gives_the_same_bits(void **state)
{
    float one[WEIGHTS], many[WEIGHTS];
    kolo_epoch first, other;
    train(0, true, *state, one, &first);
    for (int devices = 1; devices <= 8; devices++) {
        train(devices, true, *state, many, &other);
        assert_memory_equal(one, many, sizeof one);
        assert_memory_equal(&first, &other, sizeof first);
    }
}

/* Three epochs of Adam at 1e-3, nine updates: a rounding error of 1e-7 in a gradient near zero can turn an update of
 * up to 1e-3 around, so the bound is nine of them for single weights, and far less for the loss. */
static void any_number_of_devices_agrees(void **state)
{
    float one[WEIGHTS], many[WEIGHTS];
    kolo_epoch first, other;
    train(0, false, *state, one, &first);
    for (int devices = 1; devices <= 8; devices++) {
        train(devices, false, *state, many, &other);
        for (int i = 0; i < WEIGHTS; i++) assert_float_equal(one[i], many[i], 9e-3);
        assert_float_equal(first.loss, other.loss, 1e-5);
        assert_float_equal(first.val_loss, other.val_loss, 1e-5);
        assert_float_equal(first.images, other.images, 0);
    }
}

static void dropout_and_order_follow_the_seed(void **state)
{
    float weights[WEIGHTS], again[WEIGHTS];
    kolo_epoch first, second;
    train(0, true, *state, weights, &first);
    train(0, true, *state, again, &second);
    assert_memory_equal(weights, again, sizeof weights);
}

int main(void)
{
    static const char *const backends[] = {"reference", "onednn"};
    int failed = 0;
    for (int b = 0; b < 2; b++) {
        void *backend = (void *)(uintptr_t)backends[b];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(deterministic_mode_gives_the_same_bits, backend),
            cmocka_unit_test_prestate(any_number_of_devices_agrees, backend),
            cmocka_unit_test_prestate(dropout_and_order_follow_the_seed, backend),
        };
        failed += cmocka_run_group_tests_name(backends[b], tests, NULL, NULL);
    }
    return failed;
}
