/* Trainings on the stream that enqueues are what they are on the host's: the same weights, outputs, scores and history,
 * bit by bit. Only where replicas add up gradients without .deterministic they are so within rounding: the host's
 * replicas share one tree of sums, and those with memories of their own add up the sums that each of them has. A hang
 * is ended by alarm(). */
#include "ext/core/small.h"
#include "ext/optimizers/own_optimizer.h"

#include <string.h>
#include <unistd.h>

#include "losses/loss.h"
#include "replica/trainer.h"

#define MINUTES 3
#define SAMPLES 61 /* a short last batch, whose last microbatch is short, too */
#define EPOCHS  3
#define WEIGHTS 2048

/* ---------------------------------------------------------------- models */

static kolo_model *with_dropout(const char *device)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                           kolo_conv2d(5, .kernel = {3, 3}, .activation = KOLO_RELU, .l2 = 1e-3),
                           kolo_max_pool2d(2, 2, .device = device), kolo_dropout(0.2, .device = device), kolo_flatten(),
                           kolo_dense(12, .activation = KOLO_RELU, .device = device), kolo_dense(SMALL_CLASSES));
}

static kolo_model *with_batch_norm(const char *device, bool synchronized, int ghost)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_conv2d(4, .kernel = {3, 3}),
                           kolo_batch_norm(.synchronized = synchronized, .ghost_batch = ghost, .activation = KOLO_RELU,
                                           .device = device),
                           kolo_max_pool2d(2, 2), kolo_flatten(), kolo_dense(9, .device = device), kolo_dropout(0.2),
                           kolo_batch_norm(.synchronized = synchronized, .ghost_batch = ghost),
                           kolo_dense(SMALL_CLASSES));
}

static kolo_model *plain(void)
{
    return with_dropout(NULL);
}
static kolo_model *placed(void)
{
    return with_dropout("cpu:1");
}
static kolo_model *normalized(void)
{
    return with_batch_norm(NULL, false, 0);
}
static kolo_model *synchronized(void)
{
    return with_batch_norm(NULL, true, 0);
}
static kolo_model *ghosts(void)
{
    return with_batch_norm(NULL, false, 4);
}
static kolo_model *normalized_there(void)
{
    return with_batch_norm("cpu:1", true, 0);
}

/* ---------------------------------------------------------------- trainings */

typedef struct training {
    kolo_model *(*model)(void);
    kolo_optimizer optimizer;
    kolo_strategy strategy;
    kolo_loss loss; /* default: sparse cross-entropy */
    kolo_precision precision;
    bool deterministic;
    int batch, micro_batch;
    bool changed; /* samples come through a map, so that they are gathered on the host */
    bool no_shuffle; /* samples come without an order of their own */
    bool watched; /* a callback looks at every batch */
    double scale; /* the loss's as the training begins; 0: as it is */
} training;

typedef struct outcome {
    float weights[WEIGHTS], gradients[WEIGHTS], outputs[SAMPLES * SMALL_CLASSES];
    double seen[2 * EPOCHS + 5]; /* of each epoch, of one batch, of all samples; the steps' */
    double watched[2];
} outcome;

static kolo_status brighten(const kolo_map_sample *sample)
{
    for (int i = 0; i < SMALL_SIDE * SMALL_SIDE; i++) sample->out[i] = 1.5f * sample->in[i] - 0.25f;
    return KOLO_OK;
}

static void look(kolo_callback *self, int batch, const kolo_logs *logs)
{
    double *watched = self->user;
    watched[0] += (batch + 1) * kolo_logs_get(logs, "loss");
    watched[1] += fabs((double)kolo_weight_get(self->model, 0).values[batch]);
}

static void fit(training t, kolo_model *model, kolo_data *data, int epochs, outcome *out)
{
    kolo_callback callback = {.name = "look", .on_train_batch_end = look, .user = out->watched};
    const kolo_history *history =
        t.watched ? kolo_fit(model, data, .epochs = epochs, .batch_size = t.batch, .micro_batch = t.micro_batch,
                             .no_shuffle = t.no_shuffle, .verbose = KOLO_NONE, .callbacks = {callback})
                  : kolo_fit(model, data, .epochs = epochs, .batch_size = t.batch, .micro_batch = t.micro_batch,
                             .no_shuffle = t.no_shuffle, .verbose = KOLO_NONE);
    assert_non_null(history);
    for (int e = 0; e < epochs; e++) {
        out->seen[2 * e] = history->epoch[e].loss;
        out->seen[2 * e + 1] = history->epoch[e].accuracy;
    }
}

static kolo_model *compiled(training t, const char *backend)
{
    kolo_model *model = t.model();
    assert_non_null(model);
    assert_int_equal(kolo_compile(model, .optimizer = t.optimizer,
                                  .loss = t.loss.kind ? t.loss : KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY},
                                  .strategy = t.strategy, .precision = t.precision, .deterministic = t.deterministic,
                                  .seed = 5, .backend = backend),
                     KOLO_OK);
    assert_in_range(kolo_count_params(model), 1, WEIGHTS);
    return model;
}

static void set_scale(kolo_model *model, double scale)
{
    for (int i = 0; scale > 0 && i < model->trainer->count; i++)
        model->trainer->replicas[i].counters.loss_scale = scale;
}

static void train(training t, const char *backend, outcome *out)
{
    kolo_data *data = small_data(SAMPLES);
    if (t.changed) {
        kolo_data *raw = data;
        data = kolo_map(raw, .function = brighten);
        kolo_data_free(&raw);
        assert_non_null(data);
    }
    kolo_model *model = compiled(t, backend);
    double *seen = out->seen + 2 * EPOCHS;
    memset(out, 0, sizeof *out);
    if (t.scale > 0) fit(t, model, data, 1, out);
    set_scale(model, t.scale);
    fit(t, model, data, EPOCHS, out);
    seen[0] = kolo_train_on_batch(model, data, 3, 7).loss;
    seen[1] = kolo_evaluate(model, data).loss;
    seen[2] = kolo_evaluate(model, data).accuracy;
    seen[3] = kolo_gradients(model, data, out->gradients);
    seen[4] = (double)model->trainer->replicas[0].counters.updates;
    assert_int_equal(kolo_predict(model, data, out->outputs), KOLO_OK);
    memcpy(out->weights, kolo_weight_get(model, 0).values, (size_t)kolo_count_params(model) * sizeof(float));
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- comparisons */

static void same_floats(const char *what, const float *got, const float *wanted, int count, double tolerance)
{
    for (int i = 0; i < count; i++)
        if (!(fabs((double)got[i] - (double)wanted[i]) <= tolerance))
            fail_msg("%s %d: %.9g, wanted %.9g", what, i, (double)got[i], (double)wanted[i]);
}

static void same_doubles(const char *what, const double *got, const double *wanted, int count, double tolerance)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - wanted[i]) <= tolerance))
            fail_msg("%s %d: %.17g, wanted %.17g", what, i, got[i], wanted[i]);
}

/* An epoch's losses are added up as they arrive, which may be several steps at once: their sum's last bit may be
 * another, unless the training is deterministic. */
static void compare(training t, double tolerance)
{
    static outcome wanted, got;
    double rounding = t.deterministic ? 0 : 1e-14;
    train(t, "reference", &wanted);
    train(t, "enqueued", &got);
    same_doubles("history", got.seen, wanted.seen, 2 * EPOCHS + 5, tolerance + rounding);
    same_doubles("a callback's", got.watched, wanted.watched, 2, tolerance * 100);
    same_floats("weight", got.weights, wanted.weights, WEIGHTS, tolerance);
    same_floats("gradient", got.gradients, wanted.gradients, WEIGHTS, tolerance * 100);
    same_floats("output", got.outputs, wanted.outputs, SAMPLES * SMALL_CLASSES, tolerance * 10);
}

/* Batches of 16 leave 13 for the last: two captured steps. Those of 7 and 25 are captured anew. */
static void compare_batches(training t, double tolerance)
{
    static const int batches[] = {16, 7, 25};
    for (int b = 0; b < 3; b++) {
        t.batch = batches[b];
        compare(t, tolerance);
    }
}

static const kolo_optimizer *adam(void)
{
    static kolo_optimizer made;
    made = kolo_adam(.learning_rate = 0.01);
    return &made;
}

static void one_device_is_the_hosts(void **state)
{
    (void)state;
    kolo_model *(*const models[])(void) = {plain, normalized, synchronized, ghosts};
    for (int m = 0; m < 4; m++) compare_batches((training){.model = models[m], .optimizer = *adam()}, 0);
    compare((training){.model = plain, .optimizer = *adam(), .batch = 16, .micro_batch = 3, .deterministic = true}, 0);
    compare((training){.model = synchronized, .optimizer = *adam(), .batch = 16, .micro_batch = 5}, 0);
}

static void samples_come_in_any_way(void **state)
{
    (void)state;
    for (int way = 0; way < 8; way++)
        compare((training){.model = plain,
                           .optimizer = *adam(),
                           .batch = 13,
                           .changed = way & 1,
                           .no_shuffle = way & 2,
                           .watched = way & 4},
                0);
    compare((training){.model = synchronized, .optimizer = *adam(), .batch = 13, .changed = true}, 0);
    compare((training){.model = placed, .optimizer = *adam(), .batch = 13, .changed = true, .watched = true}, 0);
}

static void updates_are_the_hosts(void **state)
{
    (void)state;
    const kolo_optimizer optimizers[] = {
        kolo_sgd(.learning_rate = 0.1, .momentum = 0.9, .clip_value = 0.01),
        kolo_sgd(.learning_rate = 0.1, .nesterov = true, .momentum = 0.9, .clip_norm = 0.05),
        kolo_adam(.learning_rate = 0.01, .global_clip_norm = 0.1, .accumulate_steps = 3),
        kolo_sgd(.learning_rate = 0.1, .accumulate_steps = 2, .weight_decay = 1e-3),
        kolo_adamw(.learning_rate = 0.01, .schedule = kolo_exponential_decay(.decay_steps = 2, .decay_rate = 0.8)),
        kolo_rmsprop(.learning_rate = 0.01),
        kolo_nadam(.learning_rate = 0.01),
        kolo_lamb(.learning_rate = 0.01),
        kolo_novograd(.learning_rate = 0.01),
        {.kind = &own_kind}, /* of the host alone */
        {.kind = &own_kind, .common.accumulate_steps = 3},
    };
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++)
        compare((training){.model = plain, .optimizer = optimizers[o], .batch = 16}, 0);
}

/* ---------------------------------------------------------------- captured steps */

/* updates: those that end with the update alone. */
static int count_graphs(const kolo_model *model, bool updates)
{
    const kolo_engine *engine = model->trainer->replicas[0].engine;
    int count = 0;
    for (int g = 0; g < KOLO_GRAPHS; g++)
        count += engine->graphs[g].graph_count > 0 && (!updates || engine->graphs[g].key.updates);
    return count;
}

/* Graphs of three epochs of so many samples, and whether they end with the update. */
static void check_graphs(training t, int wanted, bool updates)
{
    outcome out = {0};
    kolo_data *raw = small_data(SAMPLES), *data = t.changed ? kolo_map(raw, .function = brighten) : raw;
    kolo_model *model = compiled(t, "enqueued");
    fit(t, model, data, EPOCHS, &out);
    assert_int_equal(count_graphs(model, false), wanted);
    assert_int_equal(count_graphs(model, true), updates ? wanted : 0);
    assert_false(model->trainer->replicas[0].engine->eager);
    assert_int_equal(model->trainer->replicas[0].engine->cache.staged, t.changed);
    t.batch = 9; /* others take their places */
    fit(t, model, data, EPOCHS, &out);
    assert_in_range(count_graphs(model, false), wanted, KOLO_GRAPHS);
    kolo_model_free(&model);
    kolo_data_free(&data);
    if (data != raw && t.changed) kolo_data_free(&raw);
}

/* A full batch and the short one; of staged samples either may be in either buffer. Where statistics are
 * reduced over several replicas, the host waits in the middle of a step, and nothing is captured. */
static void steps_are_captured(void **state)
{
    (void)state;
    training t = {.model = plain, .optimizer = *adam(), .batch = 16, .micro_batch = 2}, placed_there = t, many = t,
             waits = t, reduces = t;
    check_graphs(t, 2, true);
    placed_there.model = placed;
    check_graphs(placed_there, 2, true);
    many.strategy = kolo_mirrored(.devices = 2);
    check_graphs(many, 2, false); /* the sum over both comes before the update */
    waits.optimizer = kolo_sgd(.accumulate_steps = 2);
    check_graphs(waits, 2, false);
    reduces.model = synchronized;
    check_graphs(reduces, 2, true);
    reduces.strategy = many.strategy;
    check_graphs(reduces, 0, false);
    t.changed = true;
    check_graphs(t, 3, true); /* three full batches and a short one: the short one is in the second buffer always */
}

/* ---------------------------------------------------------------- several devices */

static void replicas_are_the_hosts(void **state)
{
    (void)state;
    for (int devices = 2; devices <= 3; devices++) {
        training t = {.optimizer = *adam(), .strategy = kolo_mirrored(.devices = devices), .deterministic = true};
        kolo_model *(*const models[])(void) = {plain, synchronized, ghosts};
        for (int m = 0; m < 3; m++) {
            t.model = models[m];
            compare_batches(t, 0);
        }
        t.model = plain;
        t.batch = 16;
        t.optimizer = kolo_adam(.accumulate_steps = 2, .global_clip_norm = 0.5);
        compare(t, 0);
    }
}

/* By an all-reduce instead of one tree. Adam would turn rounding of a gradient of nothing into a whole step: SGD. */
static void replicas_add_within_rounding(void **state)
{
    (void)state;
    for (int devices = 2; devices <= 3; devices++) {
        training t = {.model = plain,
                      .optimizer = kolo_sgd(.learning_rate = 0.05),
                      .strategy = kolo_mirrored(.devices = devices)};
        compare_batches(t, 1e-5);
        t.model = synchronized;
        compare_batches(t, 1e-5);
        t.batch = 16;
        t.changed = t.watched = true;
        compare(t, 1e-5);
        t.optimizer = kolo_sgd(.learning_rate = 0.05, .accumulate_steps = 2);
        compare(t, 1e-5);
        t.strategy = kolo_central_storage(.devices = devices);
        compare(t, 1e-5);
    }
}

static void placed_models_are_the_hosts(void **state)
{
    (void)state;
    training t = {.model = placed, .optimizer = *adam()};
    compare_batches(t, 0);
    t.model = normalized_there;
    compare_batches(t, 0);
    t.deterministic = true;
    t.strategy = kolo_mirrored(.devices = 4);
    compare_batches(t, 0);
}

/* ---------------------------------------------------------------- the loss's scale */

/* From 2^60 on many updates in a row overflow while the host is steps ahead: which ones are left out, and what rate the
 * schedule gives the others, only the stream knows. */
static void overflows_are_the_hosts(void **state)
{
    (void)state;
    const kolo_optimizer scheduled =
        kolo_adam(.learning_rate = 0.02, .schedule = kolo_exponential_decay(.decay_steps = 2, .decay_rate = 0.7));
    for (int devices = 1; devices <= 2; devices++)
        for (int watched = 0; watched < 2; watched++) {
            training t = {.model = plain, .optimizer = scheduled, .precision = KOLO_MIXED_FP16, .batch = 5};
            t.deterministic = devices > 1;
            t.watched = watched;
            if (devices > 1) t.strategy = kolo_mirrored(.devices = devices);
            compare(t, 0);
            t.scale = 0x1p60;
            compare(t, 0);
            t.optimizer = kolo_adam(.learning_rate = 0.01, .accumulate_steps = 2);
            compare(t, 0);
        }
    compare((training){.model = placed,
                       .optimizer = scheduled,
                       .precision = KOLO_MIXED_FP16,
                       .batch = 5,
                       .scale = 0x1p60},
            0);
}

/* ---------------------------------------------------------------- checkpoints and stops */

/* Asks for a stop in the sixth step. */
static void stop_there(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch, (void)logs;
    if (++self->number[0] == 6) kolo_request_stop();
}

static void interrupted(training t, const char *backend, const char *path, float *weights)
{
    kolo_data *data = small_data(SAMPLES);
    kolo_model *first = compiled(t, backend), *second = compiled(t, backend);
    const kolo_callback stop = {.name = "stop", .on_train_batch_end = stop_there};
    const kolo_history *history =
        kolo_fit(first, data, .epochs = 4, .batch_size = t.batch, .verbose = KOLO_NONE, .callbacks = {stop});
    assert_true(history && history->stopped);
    assert_int_equal(kolo_checkpoint_save(first, path), KOLO_OK);
    assert_int_equal(kolo_checkpoint_load(second, path), KOLO_OK);
    kolo_model *const both[] = {first, second};
    for (int i = 0; i < 2; i++) {
        history = kolo_fit(both[i], data, .epochs = 4, .resume = true, .batch_size = t.batch, .verbose = KOLO_NONE);
        assert_true(history && !history->stopped);
    }
    size_t count = (size_t)kolo_count_params(first);
    memset(weights, 0, WEIGHTS * sizeof *weights);
    memcpy(weights, kolo_weight_get(first, 0).values, count * sizeof *weights);
    assert_memory_equal(weights, kolo_weight_get(second, 0).values, count * sizeof *weights);
    kolo_model_free(&first);
    kolo_model_free(&second);
    kolo_data_free(&data);
    unlink(path);
}

static void interrupted_trainings_go_on_as_the_hosts(void **state)
{
    (void)state;
    char path[64];
    float wanted[WEIGHTS], got[WEIGHTS];
    snprintf(path, sizeof path, "/tmp/kolo_enqueued_%d.safetensors", (int)getpid());
    for (int precision = 0; precision < 2; precision++)
        for (int devices = 1; devices <= 2; devices++) {
            training t = {.model = plain, .optimizer = *adam(), .batch = 16, .deterministic = true};
            t.precision = precision ? KOLO_MIXED_FP16 : KOLO_FLOAT32;
            t.strategy = kolo_mirrored(.devices = devices);
            interrupted(t, "reference", path, wanted);
            interrupted(t, "enqueued", path, got);
            assert_memory_equal(got, wanted, sizeof wanted);
        }
}

int main(void)
{
    alarm(60 * MINUTES);
    setenv("KOLO_CPU_DEVICES", "6", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_is_the_hosts),
        cmocka_unit_test(samples_come_in_any_way),
        cmocka_unit_test(updates_are_the_hosts),
        cmocka_unit_test(steps_are_captured),
        cmocka_unit_test(replicas_are_the_hosts),
        cmocka_unit_test(replicas_add_within_rounding),
        cmocka_unit_test(placed_models_are_the_hosts),
        cmocka_unit_test(overflows_are_the_hosts),
        cmocka_unit_test(interrupted_trainings_go_on_as_the_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
