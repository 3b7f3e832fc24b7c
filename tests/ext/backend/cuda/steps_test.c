/* What a training step asks of CUDA: one launch of a graph and one event, and no copy. With several devices the sum of
 * their gradients comes between shard and update, but there is no copy either. And steps that wait on the device keep
 * their parameters, whatever the host prepares meanwhile. */
#include "device.h"
#include "ext/core/small.h"
#include "three_devices.h"

#define BATCH 8
#define STEPS 8 /* of an epoch */
/* The most calls of a kind that a device has once an epoch: it copies the samples' order, looks for NaN, … */
#define ONCE 3

/* ---- trainings ---- */

typedef struct training {
    kolo_precision precision;
    int devices; /* more than one: mirrored */
    double l2;
    bool deterministic;
} training;

static kolo_model *compiled(training t, const char *backend)
{
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(),
                                        kolo_dense(12, .activation = KOLO_RELU, .l2 = t.l2), kolo_dropout(0.2),
                                        kolo_dense(SMALL_CLASSES));
    kolo_optimizer sgd = kolo_sgd(.learning_rate = 0.2, .momentum = 0.5,
                                  .schedule = kolo_exponential_decay(.decay_steps = 1, .decay_rate = 0.9));
    kolo_strategy strategy = t.devices > 1 ? kolo_mirrored(.devices = t.devices) : (kolo_strategy){0};
    assert_int_equal(kolo_compile(model, .optimizer = sgd, .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY},
                                  .strategy = strategy, .precision = t.precision, .deterministic = t.deterministic,
                                  .seed = 5, .backend = backend),
                     KOLO_OK);
    return model;
}

static void fit(kolo_model *model, kolo_data *data, int epochs)
{
    assert_non_null(kolo_fit(model, data, .epochs = epochs, .batch_size = BATCH, .verbose = KOLO_NONE));
}

/* ---- counts ---- */

enum { GRAPHS, KERNELS, COPIES, EVENTS, WAITS, CALLS };
static const char *const calls[CALLS] = {"cudaGraphLaunch", "a launch", "cudaMemcpyAsync", "cudaEventRecord",
                                         "cudaEventSynchronize"};

static void count_fit(kolo_model *model, kolo_data *data, int epochs, long counts[CALLS])
{
    long (*calls_of)(const char *) = NULL;
    *(void **)&calls_of = device_symbol("kolo_shim_calls_of");
    for (int c = 0; c < CALLS; c++) counts[c] = -calls_of(calls[c]);
    fit(model, data, epochs);
    for (int c = 0; c < CALLS; c++) counts[c] += calls_of(calls[c]);
}

/* What a longer fit asks for more than a short one. */
static void check_step(training t)
{
    const long wanted[CALLS] = {[GRAPHS] = 1, [EVENTS] = 1, [WAITS] = 1};
    const int epochs[2] = {2, 5}, more = epochs[1] - epochs[0], steps = more * STEPS;
    long few[CALLS], many[CALLS], once = ONCE * more * (t.devices > 1 ? t.devices : 1);
    kolo_data *data = small_data(BATCH * STEPS);
    kolo_model *model = compiled(t, "cuda");
    fit(model, data, 1);
    count_fit(model, data, epochs[0], few);
    count_fit(model, data, epochs[1], many);
    for (int c = 0; c < CALLS; c++) {
        long got = many[c] - few[c];
        if (t.devices > 1 && c != COPIES) continue;
        if (got < wanted[c] * steps || got > wanted[c] * steps + once)
            fail_msg("%s: wanted %ld in each of %d steps, got %ld in all", calls[c], wanted[c], steps, got);
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void a_step_is_one_launch(void **state)
{
    (void)state;
    if (!device_is_simulated()) skip();
    check_step((training){.precision = KOLO_FLOAT32});
    check_step((training){.precision = KOLO_MIXED_BF16});
    check_step((training){.l2 = 1e-3, .deterministic = true});
    check_step((training){.precision = KOLO_MIXED_FP16});
    check_step((training){.devices = 3});
}

/* ---- steps in flight ---- */

static void steps_in_flight_keep_their_parameters(void **state)
{
    (void)state;
    kolo_data *data = small_data(BATCH * STEPS);
    kolo_model *models[2] = {compiled((training){.l2 = 0}, "cuda"), compiled((training){.l2 = 0}, "reference")};
    for (int i = 0; i < 2; i++) fit(models[i], data, 4);
    const float *got = kolo_weight_get(models[0], 0).values, *wanted = kolo_weight_get(models[1], 0).values;
    for (int64_t i = 0; i < kolo_count_params(models[0]); i++)
        if (!(fabsf(got[i] - wanted[i]) <= 1e-4f))
            fail_msg("weight %d: got %.9g, wanted %.9g", (int)i, (double)got[i], (double)wanted[i]);
    for (int i = 0; i < 2; i++) kolo_model_free(&models[i]);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_one_launch),
        cmocka_unit_test(steps_in_flight_keep_their_parameters),
    };
    if (!device_open()) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    streams->close(&stream);
    return failed;
}
