/* KOLO_MIXED_FP16 in training: the scale of the loss, updates left out, and that it learns what float32 does. */
#include "ext/core/small.h"

#include "strategy/strategy.h"
#include "replica/trainer.h"

#include <string.h>
#include <unistd.h>

typedef struct training {
    kolo_precision precision;
    kolo_strategy strategy;
    const char *backend;
    int accumulate, epochs;
} training;

static kolo_model *compiled(training t)
{
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model,
                                  .optimizer = kolo_adam(.learning_rate = 3e-3,
                                                         .accumulate_steps = t.accumulate ? t.accumulate : 1),
                                  .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY},
                                  .precision = t.precision, .strategy = t.strategy, .backend = t.backend,
                                  .deterministic = true, .seed = 11),
                     KOLO_OK);
    return model;
}

static kolo_epoch train(training t, kolo_model **model)
{
    kolo_data *data = small_data(256);
    *model = compiled(t);
    const kolo_history *history = kolo_fit(*model, data, .batch_size = 32, .epochs = t.epochs, .verbose = KOLO_NONE);
    assert_non_null(history);
    kolo_data_free(&data);
    return history->epoch[t.epochs - 1];
}

/* Both backends end where float32 ends, a few percent of the loss apart: each activation has 2^-11 of error. */
static void learns_what_float32_does(void **state)
{
    (void)state;
    const char *const backends[] = {"reference", "onednn"};
    for (int b = 0; b < 2; b++) {
        kolo_model *model;
        kolo_epoch wide = train((training){KOLO_FLOAT32, .backend = backends[b], .epochs = 12}, &model);
        kolo_model_free(&model);
        kolo_epoch half = train((training){KOLO_MIXED_FP16, .backend = backends[b], .epochs = 12}, &model);
        kolo_model_free(&model);
        if (!(fabs(half.loss - wide.loss) < 0.03 * wide.loss))
            fail_msg("%s: %g and %g", backends[b], wide.loss, half.loss);
        assert_true(half.accuracy > wide.accuracy - 0.02 && half.loss < 0.5); /* ln 4 = 1.39 at the start */
    }
}

/* With the weights on each device, and with central ones, which one of the replicas updates. */
static kolo_strategy eight_devices(bool central)
{
    return central ? kolo_central_storage(.devices = 8) : kolo_mirrored(.devices = 8);
}

/* In all there are more updates than the host may be ahead of a device. */
static void devices_change_nothing(void **state)
{
    (void)state;
    for (int run = 0; run < 4; run++) {
        kolo_model *one, *many;
        training t = {KOLO_MIXED_FP16, .accumulate = run % 2 ? 3 : 1, .epochs = 3}, spread = t;
        spread.strategy = eight_devices(run / 2);
        train(t, &one);
        train(spread, &many);
        assert_memory_equal(kolo_weight_get(one, 0).values, kolo_weight_get(many, 0).values,
                            (size_t)kolo_count_params(one) * sizeof(float));
        kolo_model_free(&one);
        kolo_model_free(&many);
    }
}

typedef struct watched {
    double scales[16];
    float weights[16];
} watched;

static void watch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    watched *seen = self->user;
    seen->scales[batch] = kolo_logs_get(logs, "loss_scale");
    seen->weights[batch] = kolo_replica_weights(&self->model->trainer->replicas[7])[0];
}

/* Scaled by 2^60 every gradient is infinite: that update is left out, on all devices, and the next has half the scale;
 * as long as it takes. 2,000 good updates in a row double it. */
static void check_overflow(bool central)
{
    kolo_data *data = small_data(64);
    kolo_model *model = compiled((training){.precision = KOLO_MIXED_FP16, .strategy = eight_devices(central)});
    assert_int_equal(kolo_model_meet(model), KOLO_OK);
    assert_int_equal(kolo_trainer_prepare(model, 2), KOLO_OK);
    for (int i = 0; i < 8; i++) {
        kolo_counters *counters = &model->trainer->replicas[i].counters;
        assert_true(counters->loss_scale == 0x1p15);
        counters->loss_scale = 0x1p60;
    }
    watched seen;
    float before = model->weights[0];
    kolo_callback callback = {.on_train_batch_end = watch, .user = &seen};
    assert_non_null(kolo_fit(model, data, .batch_size = 16, .callbacks = {callback}, .verbose = KOLO_NONE));
    for (int batch = 0; batch < 4; batch++) {
        assert_true(seen.scales[batch] == ldexp(1, 59 - batch));
        assert_true(seen.weights[batch] == before);
    }
    assert_true(model->trainer->replicas[3].counters.updates == 0 && model->trainer->replicas[3].counters.steps == 4);
    for (int i = 0; i < 8; i++) {
        model->trainer->replicas[i].counters.loss_scale = 0x1p10;
        model->trainer->replicas[i].counters.good = 1997;
    }
    assert_non_null(kolo_fit(model, data, .batch_size = 16, .callbacks = {callback}, .verbose = KOLO_NONE));
    assert_true(seen.scales[1] == 0x1p10 && seen.scales[2] == 0x1p11 && seen.scales[3] == 0x1p11);
    assert_true(seen.weights[0] != before && model->trainer->replicas[3].counters.updates == 4);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void overflow_halves_and_skips(void **state)
{
    (void)state;
    check_overflow(false);
    check_overflow(true);
}

/* Gradients of 1e-9 are nothing in binary16, whose smallest number is 6e-8; with the scale they are seen. A loss of a
 * learner's own makes them so small. */
static double tiny_loss(const kolo_row *row, float *gradient)
{
    for (int64_t i = 0; gradient && i < row->count; i++) gradient[i] = 1e-9f;
    return 0;
}

static void scaling_saves_small_gradients(void **state)
{
    (void)state;
    const kolo_loss_kind tiny = {.name = "tiny", .row = tiny_loss};
    kolo_data *data = small_data(32);
    for (int scaled = 0; scaled < 2; scaled++) {
        kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(), kolo_dense(3),
                                            kolo_dense(SMALL_CLASSES));
        kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 1e6), .loss = {&tiny}, .precision = KOLO_MIXED_FP16,
                     .seed = 1);
        assert_int_equal(kolo_model_meet(model), KOLO_OK);
        assert_int_equal(kolo_trainer_prepare(model, 16), KOLO_OK);
        if (!scaled) model->trainer->replicas[0].counters.loss_scale = 1;
        float before = model->weights[0];
        assert_non_null(kolo_fit(model, data, .batch_size = 32, .verbose = KOLO_NONE));
        assert_int_equal(model->weights[0] != before, scaled);
        kolo_model_free(&model);
    }
    kolo_data_free(&data);
}

/* Eight batches an epoch, three an update: the checkpoint is made while two wait. */
static void a_checkpoint_keeps_the_scale(void **state)
{
    (void)state;
    char path[] = "/tmp/kolo-half-XXXXXX";
    close(mkstemp(path));
    training t = {.precision = KOLO_MIXED_FP16, .accumulate = 3};
    kolo_data *data = small_data(256);
    kolo_model *straight = compiled(t), *resumed = compiled(t);
    assert_int_equal(kolo_model_meet(straight), KOLO_OK);
    assert_int_equal(kolo_trainer_prepare(straight, 2), KOLO_OK);
    straight->trainer->replicas[0].counters.loss_scale = 0x1p12;
    straight->trainer->replicas[0].counters.good = 1996;
    for (int fit = 0; fit < 2; fit++) {
        assert_non_null(kolo_fit(straight, data, .batch_size = 32, .verbose = KOLO_NONE));
        if (fit == 0) assert_int_equal(kolo_checkpoint_save(straight, path), KOLO_OK);
    }
    assert_int_equal(kolo_checkpoint_load(resumed, path), KOLO_OK);
    assert_true(resumed->trainer->replicas[0].counters.loss_scale == 0x1p12);
    assert_true(resumed->trainer->replicas[0].counters.accumulated_batches == 2);
    assert_non_null(kolo_fit(resumed, data, .batch_size = 32, .verbose = KOLO_NONE));
    assert_memory_equal(straight->weights, resumed->weights, (size_t)straight->weight_count * sizeof(float));
    assert_true(resumed->trainer->replicas[0].counters.loss_scale == 0x1p13); /* 1,996 + 2 + 3 ≥ 2,000 */
    unlink(path);
    kolo_model_free(&straight);
    kolo_model_free(&resumed);
    kolo_data_free(&data);
}

int main(void)
{
    setenv("KOLO_CPU_DEVICES", "8", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_what_float32_does),     cmocka_unit_test(devices_change_nothing),
        cmocka_unit_test(overflow_halves_and_skips),    cmocka_unit_test(scaling_saves_small_gradients),
        cmocka_unit_test(a_checkpoint_keeps_the_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
