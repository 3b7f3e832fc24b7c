/* Signals that arrive while kernels run, as Ctrl-C and timers do, change no result and no memory. Products of float32
 * in oneDNN 2.6 do not stand a handler in their midst (backend/onednn/kernel.c holds signals meanwhile). */
#include "rig.h"

#include <signal.h>
#include <sys/time.h>

enum { samples = 64, length = 40, features = 256, units = 500 };

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

static void ring_every(int microseconds)
{
    const struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_PROF, &timer, NULL);
}

static kolo_data *some_data(void)
{
    dice d = {3};
    float *x = numbers(&d, samples * length * features, 0);
    int32_t labels[samples * length];
    for (int i = 0; i < samples * length; i++) labels[i] = roll_between(&d, 0, units - 1);
    kolo_data *data = kolo_data_from_arrays(x, labels, .samples = samples, .shape = {length, features},
                                            .classes = units, .label_count = length);
    assert_non_null(data);
    free(x);
    return data;
}

/* Takes nothing over; the caller frees the weights. */
static float *train(kolo_data *data, int microseconds, size_t *bytes)
{
    kolo_model *model = kolo_sequential(kolo_input(length, features), kolo_dense(features), kolo_dense(units));
    rig_ok(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .backend = "onednn",
                        .deterministic = true, .seed = 2));
    ring_every(microseconds);
    assert_non_null(kolo_fit(model, data, .epochs = 4, .batch_size = samples, .verbose = KOLO_NONE));
    ring_every(0);
    *bytes = (size_t)kolo_count_params(model) * sizeof(float);
    float *weights = malloc(*bytes);
    assert_non_null(weights);
    memcpy(weights, kolo_weight_get(model, 0).values, *bytes);
    kolo_model_free(&model);
    return weights;
}

/* On one thread, the caller's: signals do not go to others. */
static void test_signals(void **state)
{
    (void)state;
    size_t bytes;
    kolo_data *data = some_data();
    signal(SIGPROF, count_signal);
    float *still = train(data, 0, &bytes);
    for (int n = 0; n < 40 && signals < 400; n++) {
        float *rung = train(data, 100, &bytes);
        assert_memory_equal(still, rung, bytes);
        free(rung);
    }
    assert_true(signals >= 100);
    free(still);
    kolo_data_free(&data);
}

int main(void)
{
    setenv("KOLO_THREADS", "1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
