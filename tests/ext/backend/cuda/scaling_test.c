/* KOLO_MIXED_FP16 where the device keeps the loss's scale: trainings of which updates are left out, beside the
 * reference backend's; and that no step waits for what its update came to. */
/* test: long: it trains with loss scaling until it settles. */
#include "device.h"
#include "ext/core/small.h"
#include "three_devices.h"
#include "replica/trainer.h"

#include <unistd.h>

typedef enum cudaError { cudaSuccess } cudaError_t;
typedef void *cudaStream_t, *cudaGraph_t;
#define KOLO_SHIM_INSIDE
#include "shim/faults.h"

#define WEIGHTS 1024
#define EPOCHS  3
#define SAMPLES 90
#define BATCH   8 /* 12 steps an epoch, the last of another size */

typedef struct training {
    kolo_optimizer optimizer;
    kolo_precision precision;
    int devices, samples;
    bool deterministic, watched;
    double scale; /* that it begins with; 0: the usual one */
    bool interrupted; /* by a checkpoint, behind the first epoch */
} training;

typedef struct outcome {
    kolo_counters counters;
    double loss[EPOCHS], rate[EPOCHS];
    float weights[WEIGHTS];
    double scales[2][EPOCHS * SAMPLES]; /* that callbacks saw before and after each batch, */
    int64_t updates[EPOCHS * SAMPLES]; /* and counters */
    int batches;
} outcome;

/* ---- trainings ---- */

static kolo_model *compiled(training t, const char *backend)
{
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(),
                                        kolo_dense(12, .activation = KOLO_RELU), kolo_dense(SMALL_CLASSES));
    kolo_strategy strategy = t.devices > 1 ? kolo_mirrored(.devices = t.devices) : (kolo_strategy){0};
    kolo_optimizer optimizer = t.optimizer.kind ? t.optimizer : kolo_adam(.learning_rate = 0.01);
    assert_int_equal(kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5,
                                  .precision = t.precision, .strategy = strategy, .deterministic = t.deterministic,
                                  .backend = backend),
                     KOLO_OK);
    assert_int_equal(kolo_model_meet(model), KOLO_OK);
    assert_int_equal(kolo_trainer_prepare(model, 2), KOLO_OK);
    for (int i = 0; i < model->trainer->count && t.scale > 0; i++)
        model->trainer->replicas[i].counters.loss_scale = t.scale;
    return model;
}

static void note_before(kolo_callback *self, int batch, const kolo_logs *logs)
{
    outcome *seen = self->user;
    (void)batch;
    seen->scales[0][seen->batches] = kolo_logs_get(logs, "loss_scale");
}

static void note_after(kolo_callback *self, int batch, const kolo_logs *logs)
{
    outcome *seen = self->user;
    (void)batch;
    seen->scales[1][seen->batches] = kolo_logs_get(logs, "loss_scale");
    seen->updates[seen->batches++] = self->model->trainer->replicas[0].counters.updates;
}

static void fit(const training *t, kolo_model *model, const kolo_data *data, int end, outcome *out)
{
    kolo_callback callback = {.user = out};
    if (t->watched) callback.on_train_batch_begin = note_before;
    if (t->watched) callback.on_train_batch_end = note_after;
    const kolo_history *history =
        kolo_fit(model, (kolo_data *)(uintptr_t)data, .batch_size = BATCH, .epochs = end,
                 .resume = t->interrupted && end > 1, .callbacks = {callback}, .verbose = KOLO_NONE);
    if (!history) fail_msg("%s", kolo_last_error().text);
    for (int e = 0; e < history->epochs; e++) {
        out->loss[e] = history->epoch[e].loss;
        out->rate[e] = history->epoch[e].learning_rate;
    }
}

/* Goes on with a model that never saw the first part. */
static void go_on(const training *t, const char *backend, kolo_model **model)
{
    char path[] = "/tmp/kolo-scaling-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(kolo_checkpoint_save(*model, path), KOLO_OK);
    kolo_model_free(model);
    *model = compiled(*t, backend);
    assert_int_equal(kolo_checkpoint_load(*model, path), KOLO_OK);
    unlink(path);
}

static void train(training t, const char *backend, outcome *out)
{
    memset(out, 0, sizeof *out);
    t.precision = KOLO_MIXED_FP16;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = compiled(t, backend);
    if (t.interrupted) {
        fit(&t, model, data, 1, out);
        go_on(&t, backend, &model);
    }
    fit(&t, model, data, EPOCHS, out);
    int64_t count = kolo_count_params(model);
    assert_true(count <= WEIGHTS);
    memcpy(out->weights, kolo_weight_get(model, 0).values, (size_t)count * sizeof(float));
    out->counters = model->trainer->replicas[0].counters;
    for (int i = 1; i < model->trainer->count; i++)
        assert_memory_equal(&model->trainer->replicas[i].counters, &out->counters, sizeof out->counters);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void alike(const outcome *got, const outcome *wanted)
{
    assert_memory_equal(&got->counters, &wanted->counters, sizeof got->counters);
    assert_memory_equal(got->scales, wanted->scales, sizeof got->scales);
    assert_memory_equal(got->updates, wanted->updates, sizeof got->updates);
    for (int e = 0; e < EPOCHS; e++) {
        assert_true(fabs(got->loss[e] - wanted->loss[e]) <= 2e-2 * wanted->loss[e]);
        assert_true(got->rate[e] == wanted->rate[e]);
    }
    for (int i = 0; i < WEIGHTS; i++) assert_true(fabsf(got->weights[i] - wanted->weights[i]) <= 2e-2F);
}

/* Some updates are left out at first, but not all. */
static void compare(training t)
{
    outcome wanted, got;
    t.scale = t.optimizer.common.accumulate_steps > 1 ? 0x1p27 : 0x1p40;
    train(t, "reference", &wanted);
    assert_true(wanted.counters.updates >= 6 && wanted.counters.loss_scale <= t.scale / 8);
    train(t, "cuda", &got);
    alike(&got, &wanted);
}

/* ---- tests ---- */

static void updates_are_left_out_alike(void **state)
{
    (void)state;
    for (int devices = 1; devices <= 3; devices += 2) {
        compare((training){.devices = devices});
        compare((training){.devices = devices, .watched = true});
        compare((training){.devices = devices, .deterministic = true});
        compare((training){.devices = devices, .interrupted = true});
    }
    compare((training){.optimizer = kolo_sgd(.learning_rate = 0.05, .momentum = 0.9, .global_clip_norm = 1)});
    compare((training){.optimizer = kolo_novograd(.learning_rate = 0.01)});
}

/* Of which only the first tells the loss's scale. */
static void several_batches_an_update(void **state)
{
    (void)state;
    const kolo_optimizer optimizer = kolo_adam(.learning_rate = 0.01, .accumulate_steps = 2);
    for (int devices = 1; devices <= 3; devices += 2) {
        compare((training){.optimizer = optimizer, .devices = devices});
        compare((training){.optimizer = optimizer, .devices = devices, .watched = true});
        compare((training){.optimizer = optimizer, .devices = devices, .interrupted = true});
    }
}

/* A rate that depends on how many updates there were. */
static void schedules_count_what_was_done(void **state)
{
    (void)state;
    const kolo_optimizer optimizer =
        kolo_adam(.learning_rate = 0.02, .schedule = kolo_exponential_decay(.decay_steps = 3, .decay_rate = 0.8));
    compare((training){.optimizer = optimizer});
    compare((training){.optimizer = optimizer, .watched = true});
    compare((training){.optimizer = optimizer, .devices = 3, .interrupted = true});
}

/* A checkpoint in the middle, and looking on, change no bit. */
static void late_is_the_same_as_at_once(void **state)
{
    (void)state;
    outcome straight, other;
    train((training){.scale = 0x1p40}, "cuda", &straight);
    train((training){.scale = 0x1p40, .interrupted = true}, "cuda", &other);
    assert_memory_equal(straight.weights, other.weights, sizeof straight.weights);
    train((training){.scale = 0x1p40, .watched = true}, "cuda", &other);
    assert_memory_equal(straight.weights, other.weights, sizeof straight.weights);
    assert_memory_equal(&straight.counters, &other.counters, sizeof straight.counters);
}

/* ---- waiting ---- */

static long waits_of(training t)
{
    long (*waits)(void);
    *(void **)&waits = device_symbol("kolo_shim_waits");
    kolo_data *data = small_data(t.samples);
    kolo_model *model = compiled(t, "cuda");
    outcome *out = calloc(1, sizeof *out);
    long before = waits();
    fit(&t, model, data, 1, out);
    long after = waits();
    free(out);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return after - before;
}

/* What twenty steps more wait for; the host is as far ahead as it may be, and no step is one of the first. */
static long waits_of_steps(training t)
{
    training more = t;
    t.samples = 20 * BATCH;
    more.samples = 40 * BATCH;
    return waits_of(more) - waits_of(t);
}

static void no_step_waits_for_its_update(void **state)
{
    (void)state;
    if (!device_is_simulated()) skip();
    for (int devices = 1; devices <= 3; devices += 2) {
        long plain = waits_of_steps((training){.precision = KOLO_FLOAT32, .devices = devices});
        long scaled = waits_of_steps((training){.precision = KOLO_MIXED_FP16, .devices = devices});
        long skipping = waits_of_steps((training){.precision = KOLO_MIXED_FP16, .devices = devices, .scale = 0x1p60});
        /* One wait a step more would be twenty. How many of the first steps wait depends on which device is ahead. */
        if (labs(scaled - plain) > 9 || labs(skipping - plain) > 9)
            fail_msg("%d devices wait %ld times in float32, %ld with a scaled loss, %ld where updates are left out",
                     devices, plain, scaled, skipping);
    }
    training exact = {.precision = KOLO_MIXED_FP16, .watched = true}; /* the count sees those that there are */
    assert_true(waits_of_steps(exact) >= waits_of_steps((training){.precision = KOLO_MIXED_FP16}) + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_are_left_out_alike),    cmocka_unit_test(several_batches_an_update),
        cmocka_unit_test(schedules_count_what_was_done), cmocka_unit_test(late_is_the_same_as_at_once),
        cmocka_unit_test(no_step_waits_for_its_update),
    };
    if (getenv("ONLY")) cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
