/* Callbacks: what they decide against what Keras's decide (keras_callbacks.h), called from a loop of the test's own;
 * and within kolo_fit what they do, and what they refuse before training. */
#include "replica/trainer.h"
#include "show/bundle.h"
#include "ext/core/small.h"
#include "ext/data/files.h"
#include "ext/callbacks/keras_callbacks.h"

#include <dirent.h>

#define COUNT(table) (sizeof table / sizeof *table)

static kolo_data *data;
static kolo_model *model;

static int begin(void **state)
{
    (void)state;
    data = small_data(48);
    model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(), kolo_dense(SMALL_CLASSES));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 0.1), .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .metrics = {KOLO_ACCURACY}, .seed = 5, .backend = "reference", .deterministic = true),
                     KOLO_OK);
    kolo_clear_error();
    return 0;
}

static int end(void **state)
{
    (void)state;
    kolo_model_free(&model);
    kolo_data_free(&data);
    return system("rm -rf ./*");
}

#define FIT(...) kolo_fit(model, data, .batch_size = 8, .verbose = KOLO_NONE, __VA_ARGS__)

/* ------------------------------------------------------------------------------------------ as Keras decides */

#define EPOCHS 12

/* A loop of one's own; returns the epochs that were trained. The first weight is the epoch's number. */
static int train(kolo_callback *callback, const double *numbers, int batches, double *rates)
{
    int epoch = 0;
    kolo_logs logs = {0};
    callback->model = model;
    kolo_logs_set(&logs, "val_loss", NAN);
    callback->on_train_begin(callback, &logs);
    model->stop_training = false;
    for (; epoch < EPOCHS && !kolo_training_stopped(model); epoch++) {
        kolo_weight_get(model, 0).values[0] = (float)epoch;
        kolo_logs_set(&logs, "val_loss", numbers[epoch]);
        if (callback->on_epoch_begin) callback->on_epoch_begin(callback, epoch, &logs);
        for (int batch = 0; batch < batches; batch++) callback->on_train_batch_end(callback, batch, &logs);
        callback->on_epoch_end(callback, epoch, &logs);
        if (rates) rates[epoch] = kolo_get_learning_rate(model);
    }
    callback->on_train_end(callback, &logs);
    assert_null(callback->state);
    return epoch;
}

static void early_stopping_stops_where_keras_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(stoppings); i++) {
        kolo_callback callback = kolo_early_stopping_of(stoppings[i].recipe);
        int epochs = train(&callback, stoppings[i].numbers, 0, NULL), restored = stoppings[i].restored;
        if (epochs != stoppings[i].epochs)
            fail_msg("case %zu: wanted %d epochs, got %d", i, stoppings[i].epochs, epochs);
        assert_int_equal(kolo_weight_get(model, 0).values[0], restored < 0 ? epochs - 1 : restored);
    }
}

static void the_learning_rate_falls_where_keras_lowers_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(plateaus); i++) {
        double rates[EPOCHS];
        kolo_callback callback = kolo_reduce_lr_on_plateau_of(plateaus[i].recipe);
        kolo_set_learning_rate(model, 0.1);
        train(&callback, plateaus[i].numbers, 0, rates);
        for (int epoch = 0; epoch < EPOCHS; epoch++) /* Keras's rates are float32 */
            if (!(fabs(rates[epoch] - plateaus[i].rates[epoch]) <= 1e-6 * rates[epoch]))
                fail_msg("case %zu, epoch %d: wanted %g, got %g", i, epoch, plateaus[i].rates[epoch], rates[epoch]);
    }
}

static int files_in(const char *folder)
{
    int count = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) count += entry->d_name[0] != '.';
    if (listing) closedir(listing);
    return count;
}

static void models_are_saved_where_keras_saves_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(savings); i++) {
        char folder[32], path[128], *files = strdup(savings[i].files), *rest = files;
        kolo_model_checkpoint_args recipe = savings[i].recipe;
        snprintf(folder, sizeof folder, "case%zu/made", i);
        snprintf(path, sizeof path, "%s/%s", folder, recipe.path);
        recipe.path = path;
        kolo_callback callback = kolo_model_checkpoint_of(recipe);
        train(&callback, savings[i].numbers, savings[i].batches, NULL);
        int wanted = 0;
        for (char *end_of; *rest; rest = end_of, wanted++) { /* names may begin with spaces */
            end_of = strstr(rest, ".keras") + strlen(".keras");
            char file[160];
            snprintf(file, sizeof file, "%s/%.*s", folder, (int)(end_of - rest), rest);
            if (access(file, R_OK) != 0) fail_msg("case %zu: there is no %s", i, file);
            if (*end_of == ' ') end_of++;
        }
        assert_int_equal(files_in(folder), wanted);
        free(files);
    }
}

/* ------------------------------------------------------------------------------------------ within kolo_fit */

static void a_monitor_that_is_not_there_is_refused_before_training(void **state)
{
    (void)state;
    float before = kolo_weight_get(model, 0).values[0];
    assert_null(FIT(.callbacks = {kolo_early_stopping()}));
    assert_failure(KOLO_INVALID, "kolo_fit: kolo_early_stopping: .monitor: wanted one of \"accuracy\", \"loss\"",
                   "got \"val_loss\" (kolo_fit() with .validation_data gives those with val_)", NULL);
    assert_null(FIT(.callbacks = {kolo_reduce_lr_on_plateau(.monitor = "los")}));
    assert_failure(KOLO_INVALID, "kolo_reduce_lr_on_plateau: .monitor", "got \"los\"", NULL);
    assert_null(FIT(.callbacks = {kolo_model_checkpoint("m", .save_best_only = true)}));
    assert_failure(KOLO_INVALID, "kolo_model_checkpoint: .monitor", NULL);
    assert_null(FIT(.callbacks = {kolo_model_checkpoint("{val_loss:.2f}")}));
    assert_failure(KOLO_INVALID, "path: wanted {epoch} or a name of the logs between braces, got {val_loss}", NULL);
    assert_null(FIT(.callbacks = {kolo_model_checkpoint("{epoch:x}")}));
    assert_failure(KOLO_INVALID, "path: wanted {epoch}, {epoch:02d}", NULL);
    assert_null(FIT(.callbacks = {kolo_reduce_lr_on_plateau(.monitor = "loss", .factor = 1.5)}));
    assert_failure(KOLO_INVALID, ".factor: wanted a number below 1, got 1.5", NULL);
    assert_null(FIT(.callbacks = {kolo_csv_logger("nowhere/log.csv")}));
    assert_failure(KOLO_NOT_FOUND, "kolo_csv_logger: nowhere/log.csv: wanted a file that can be written", NULL);
    assert_null(FIT(.callbacks = {kolo_learning_rate_scheduler()}));
    assert_failure(KOLO_INVALID, "wanted a function of the epoch or .by_epoch, got neither", NULL);
    assert_null(FIT(.callbacks = {kolo_learning_rate_warmup()}));
    assert_failure(KOLO_INVALID, "initial_lr: wanted a number above 0", NULL);
    assert_null(FIT(.callbacks = {kolo_gradient_noise_scale(.small_batch = 8, .big_batch = 12)}));
    assert_failure(KOLO_INVALID, ".big_batch: wanted a multiple of .small_batch", NULL);
    assert_float_equal(kolo_weight_get(model, 0).values[0], before, 0);
}

static void a_fit_stops_early_and_goes_back_to_its_best(void **state)
{
    (void)state;
    double loss = FIT(.epochs = 1, .validation_data = data)->epoch[0].val_loss;
    kolo_set_learning_rate(model, 50); /* from now on it gets worse */
    const kolo_history *history = FIT(.epochs = 30, .validation_data = data,
                                      .callbacks = {kolo_early_stopping(.patience = 2, .restore_best_weights = true)});
    assert_true(history->epochs < 30);
    int best = 0;
    for (int i = 0; i < history->epochs; i++)
        best = history->epoch[i].val_loss < history->epoch[best].val_loss ? i : best;
    assert_float_equal(kolo_evaluate(model, data).loss, history->epoch[best].val_loss, 1e-9);
    assert_true(loss > 0);
}

static double halved(int epoch, double rate)
{
    return epoch < 2 ? rate : rate / 2;
}

static void schedules_by_epoch(void **state)
{
    (void)state;
    const kolo_history *history = FIT(.epochs = 5, .callbacks = {kolo_learning_rate_scheduler(halved)});
    const double wanted[] = {0.1, 0.1, 0.05, 0.025, 0.0125};
    for (int i = 0; i < 5; i++) assert_float_equal(history->epoch[i].learning_rate, wanted[i], 1e-12);
    kolo_schedule schedule = kolo_exponential_decay(.initial_learning_rate = 0.8, .decay_steps = 1, .decay_rate = 0.5);
    history = FIT(.epochs = 3, .callbacks = {kolo_learning_rate_scheduler(.by_epoch = schedule)});
    for (int i = 0; i < 3; i++) assert_float_equal(history->epoch[i].learning_rate, 0.8 / (1 << i), 1e-12);
    kolo_compile(model, .optimizer = kolo_sgd(.schedule = schedule), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1,
                 .backend = "reference");
    assert_null(FIT(.epochs = 3, .callbacks = {kolo_learning_rate_scheduler(halved)}));
    assert_failure(KOLO_INVALID, "kolo_learning_rate_scheduler: ", ".schedule", NULL);
}

static void note_begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)self;
    (void)logs;
}

static void note_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)epoch;
    note_begin(self, logs);
}

static double rates_seen[64];
static int rate_count;
static void note_rate(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch;
    (void)logs;
    rates_seen[rate_count++] = kolo_get_learning_rate(self->model);
}

/* Horovod's: after e epochs, the batch counted as done, η/n · (e·(n − 1)/5 + 1). */
static void the_rate_warms_up_batch_by_batch(void **state)
{
    (void)state;
    rate_count = 0;
    FIT(.epochs = 4, .callbacks = {kolo_learning_rate_warmup(0.8, .warmup_epochs = 3, .size = 8),
                                   {.on_train_batch_end = note_rate}});
    assert_int_equal(rate_count, 24);
    for (int i = 0; i < 24; i++) {
        double epochs = (i + 1) / 6.0, wanted = i < 18 ? 0.8 / 8 * (epochs * 7 / 3 + 1) : 0.8;
        assert_float_equal(rates_seen[i], wanted, 1e-12);
    }
}

static void a_loss_that_is_no_number_ends_training(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++) kolo_weight_get(model, 0).values[i] = NAN;
    const kolo_history *history = FIT(.epochs = 5, .callbacks = {kolo_terminate_on_nan()});
    assert_true(history->stopped);
    assert_int_equal(history->epochs, 0);
    assert_int_equal(model->position.step, 1);
}

static const char *file_text(const char *path)
{
    static char text[8192];
    text[read_whole(path, (unsigned char *)text, sizeof text - 1)] = 0;
    return text;
}

static void logs_are_a_table(void **state)
{
    (void)state;
    FIT(.epochs = 2, .validation_data = data, .callbacks = {kolo_csv_logger("log.csv")});
    const char *text = file_text("log.csv");
    const char header[] =
        "epoch,accuracy,images,images_per_second,learning_rate,loss,seconds,steps,val_accuracy,val_loss\n";
    assert_memory_equal(text, header, strlen(header));
    double accuracy;
    int epoch;
    assert_int_equal(sscanf(text + strlen(header), "%d,%lf,48,", &epoch, &accuracy), 2);
    assert_int_equal(epoch, 0);
    assert_float_equal(accuracy, model->history.epoch[0].accuracy, 0); /* every digit */
    FIT(.epochs = 1, .callbacks = {kolo_csv_logger("log.csv", .append = true)});
    int lines = 0;
    for (const char *c = file_text("log.csv"); *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 4);
    FIT(.epochs = 1, .callbacks = {kolo_csv_logger("log.csv", .separator = ";")});
    assert_memory_equal(file_text("log.csv"), "epoch;accuracy;", 15);
}

static void saved_models_can_be_loaded(void **state)
{
    (void)state;
    FIT(.epochs = 2,
        .callbacks = {kolo_model_checkpoint("all/{epoch}"),
                      kolo_model_checkpoint("weights/{epoch}-{batch}", .save_weights_only = true, .save_freq = 6)});
    assert_int_equal(files_in("all"), 2);
    assert_int_equal(files_in("weights"), 2);
    float last = kolo_weight_get(model, 0).values[7];
    assert_int_equal(kolo_load(model, "weights/1-6"), KOLO_OK); /* in the middle of the fit, not as it began */
    float first = kolo_weight_get(model, 0).values[7];
    assert_true(first != last);
    kolo_model *again = kolo_load_model("all/1");
    assert_non_null(again);
    assert_float_equal(kolo_weight_get(again, 0).values[7], first, 0);
    assert_int_equal(kolo_load(model, "weights/2-6"), KOLO_OK);
    assert_float_equal(kolo_weight_get(model, 0).values[7], last, 0);
    kolo_model_free(&again);
}

/* ------------------------------------------------------------------------------------------ interrupted */

static void interrupt_at(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch;
    (void)logs;
    if (--self->number[0] == 0) kolo_request_stop();
}

static const kolo_history *fit_with_backup(int stop_after)
{
    kolo_callback stop = {.on_train_batch_end = interrupt_at, .number = {stop_after}};
    return FIT(.epochs = 6, .validation_data = data,
               .callbacks = {kolo_reduce_lr_on_plateau(.monitor = "loss", .patience = 2, .min_delta = 0.5),
                             stop_after ? stop : (kolo_callback){0}, kolo_backup_and_restore("backup")});
}

static void again_from_the_beginning(void)
{
    end(NULL);
    begin(NULL);
}

/* The same program run again until it comes to its end: callbacks' own numbers go on, too. */
static void an_interrupted_fit_goes_on_exactly(void **state)
{
    (void)state;
    const kolo_history *straight = fit_with_backup(0);
    double loss = straight->epoch[5].loss, rate = straight->epoch[5].learning_rate;
    assert_true(rate < 0.1);
    assert_int_equal(files_in("backup"), 0); /* it came to its end */
    for (int stop = 1; stop <= 17; stop += 4) {
        again_from_the_beginning();
        assert_true(fit_with_backup(stop)->stopped);
        assert_int_equal(files_in("backup"), 1);
        kolo_model_free(&model); /* another process would have another */
        kolo_data_free(&data);
        begin(NULL);
        const kolo_history *rest = fit_with_backup(0);
        assert_float_equal(rest->epoch[rest->epochs - 1].loss, loss, 0);
        assert_float_equal(rest->epoch[rest->epochs - 1].learning_rate, rate, 0);
        assert_int_equal(rest->first_epoch + rest->epochs, 6);
    }
}

/* ------------------------------------------------------------------------------------------ measuring */

static void times_are_medians(void **state)
{
    (void)state;
    kolo_timing timing = {0};
    FIT(.epochs = 4, .validation_data = data, .callbacks = {kolo_batch_timing(&timing, .verbose = KOLO_NONE)});
    assert_int_equal(timing.epochs, 4);
    assert_true(timing.batch > 0 && timing.epoch >= 6 * timing.batch * 0.2 && timing.first_epoch > 0);
    assert_true(timing.overhead > 0 && timing.overhead < 1); /* the validation at least */
    assert_true(timing.total >= timing.total_without_first + timing.first_epoch * 0.99);
}

#define SAMPLES 48
#define WEIGHTS (SMALL_SIDE * SMALL_SIDE * SMALL_CLASSES + SMALL_CLASSES)

/* tr(Σ) and |G|² of the data itself, from the gradient of each sample. */
static void exact_noise(double *noise, double *signal)
{
    static float gradient[WEIGHTS];
    static double mean[WEIGHTS];
    double squares = 0;
    memset(mean, 0, sizeof mean);
    *signal = 0;
    for (int s = 0; s < SAMPLES; s++) {
        kolo_data *one = kolo_data_slice(data, s, 1);
        kolo_gradients(model, one, gradient);
        for (int i = 0; i < WEIGHTS; i++) {
            squares += (double)gradient[i] * gradient[i] / SAMPLES;
            mean[i] += (double)gradient[i] / SAMPLES;
        }
        kolo_data_free(&one);
    }
    for (int i = 0; i < WEIGHTS; i++) *signal += mean[i] * mean[i];
    *noise = squares - *signal;
}

/* With weights that stay, the estimate must come to the exact value: 400 measurements leave a few parts in a hundred.
 */
static void the_noise_scale_is_that_of_the_data(void **state)
{
    (void)state;
    kolo_noise_scale found;
    double noise, signal;
    kolo_set_learning_rate(model, 0);
    exact_noise(&noise, &signal);
    FIT(.epochs = 67, .callbacks = {kolo_gradient_noise_scale(&found, .small_batch = 4, .big_batch = 32, .every = 1,
                                                              .smoothing = 0.995, .verbose = KOLO_NONE)});
    assert_int_equal(found.measurements, 402);
    assert_true(fabs(found.noise / noise - 1) < 0.05);
    assert_true(fabs(found.signal / signal - 1) < 0.05);
    assert_true(fabs(found.scale / (noise / signal) - 1) < 0.08);
}

/* Measuring changes nothing. */
static void callbacks_that_look_leave_training_as_it_was(void **state)
{
    (void)state;
    kolo_timing timing;
    double loss = FIT(.epochs = 3)->epoch[2].loss;
    again_from_the_beginning();
    const kolo_history *history =
        FIT(.epochs = 3, .callbacks = {kolo_gradient_noise_scale(.small_batch = 4, .every = 2, .verbose = KOLO_NONE),
                                       kolo_csv_logger("log.csv"), kolo_tensorboard("logs", .update_freq = 2),
                                       kolo_model_checkpoint("m{epoch}"), kolo_terminate_on_nan(),
                                       kolo_batch_timing(&timing, .verbose = KOLO_NONE)});
    assert_float_equal(history->epoch[2].loss, loss, 0);
}

/* ------------------------------------------------------------------------------------------ misused */

/* Hooks in any order, with nothing in their hands: a sentence perhaps, never a crash. */
static void call_hooks(kolo_callback callback, kolo_model *of, const kolo_logs *logs, bool begun)
{
    callback.model = of;
    if (begun && callback.on_train_begin) callback.on_train_begin(&callback, logs);
    if (callback.on_epoch_begin) callback.on_epoch_begin(&callback, 0, logs);
    if (callback.on_train_batch_begin) callback.on_train_batch_begin(&callback, 0, logs);
    if (callback.on_train_batch_end) callback.on_train_batch_end(&callback, 0, logs);
    if (callback.on_epoch_end) callback.on_epoch_end(&callback, 0, logs);
    if (callback.on_epoch_end) callback.on_epoch_end(&callback, 1, logs);
    if (callback.on_train_end) callback.on_train_end(&callback, logs);
    if (callback.on_train_end) callback.on_train_end(&callback, logs);
    assert_null(callback.state);
    kolo_clear_error();
}

static void hooks_without_a_model_or_logs(void **state)
{
    (void)state;
    const kolo_callback all[] = {kolo_model_checkpoint("a{epoch}"),
                                 kolo_model_checkpoint("b", .save_weights_only = true, .save_freq = 1),
                                 kolo_early_stopping(.restore_best_weights = true),
                                 kolo_reduce_lr_on_plateau(.patience = KOLO_NONE),
                                 kolo_learning_rate_scheduler(halved),
                                 kolo_learning_rate_warmup(0.5, .steps_per_epoch = 3),
                                 kolo_csv_logger("log.csv"),
                                 kolo_tensorboard("logs", .update_freq = 1),
                                 kolo_terminate_on_nan(),
                                 kolo_backup_and_restore("backup"),
                                 kolo_batch_timing(NULL, .verbose = KOLO_NONE),
                                 kolo_gradient_noise_scale(.every = 1, .verbose = KOLO_NONE)};
    kolo_logs logs = {0};
    kolo_logs_set(&logs, "val_loss", 0.5);
    for (size_t i = 0; i < COUNT(all); i++)
        for (int begun = 0; begun < 2; begun++) {
            call_hooks(all[i], NULL, NULL, begun);
            call_hooks(all[i], NULL, &logs, begun);
            call_hooks(all[i], model, NULL, begun);
            call_hooks(all[i], model, &logs, begun);
        }
}

/* ------------------------------------------------------------------------------------------ shown */

static void assert_shown(kolo_callback callback, const char *text)
{
    char *json = kolo_callback_bundle(&callback), wanted[200];
    snprintf(wanted, sizeof wanted, "{\"text/plain\":\"%s\"}", text);
    assert_string_equal(json, wanted);
    free(json);
}

static void callbacks_are_shown_as_they_are_written(void **state)
{
    (void)state;
    assert_shown(kolo_early_stopping(.patience = 3, .mode = KOLO_MAX, .baseline = KOLO_NONE),
                 "kolo_early_stopping(.patience = 3, .mode = KOLO_MAX, .baseline = KOLO_NONE)");
    assert_shown(kolo_model_checkpoint("a{epoch}", .save_best_only = true),
                 "kolo_model_checkpoint(\\\"a{epoch}\\\", .save_best_only = true)");
    assert_shown(kolo_learning_rate_warmup(0.5, .size = 8), "kolo_learning_rate_warmup(0.5, .size = 8)");
    assert_shown(kolo_learning_rate_scheduler(halved), "kolo_learning_rate_scheduler(…)");
    assert_shown(kolo_broadcast_variables(2), "kolo_broadcast_variables(2)");
    assert_shown(kolo_terminate_on_nan(), "kolo_terminate_on_nan()");
    assert_shown((kolo_callback){.name = "mine", .on_train_begin = note_begin, .on_epoch_end = note_epoch},
                 "a callback 'mine' with .on_train_begin, .on_epoch_end");
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(early_stopping_stops_where_keras_does),
        TEST(the_learning_rate_falls_where_keras_lowers_it),
        TEST(models_are_saved_where_keras_saves_them),
        TEST(a_monitor_that_is_not_there_is_refused_before_training),
        TEST(a_fit_stops_early_and_goes_back_to_its_best),
        TEST(schedules_by_epoch),
        TEST(the_rate_warms_up_batch_by_batch),
        TEST(a_loss_that_is_no_number_ends_training),
        TEST(logs_are_a_table),
        TEST(saved_models_can_be_loaded),
        TEST(an_interrupted_fit_goes_on_exactly),
        TEST(times_are_medians),
        TEST(the_noise_scale_is_that_of_the_data),
        TEST(callbacks_that_look_leave_training_as_it_was),
        TEST(hooks_without_a_model_or_logs),
        TEST(callbacks_are_shown_as_they_are_written),
    };
    return cmocka_run_group_tests_name("callbacks", tests, enter_folder, leave_folder);
}
