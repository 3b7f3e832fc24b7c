/* kolo_compile, kolo_fit, kolo_evaluate, kolo_predict and their callbacks, on the reference backend. */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void compile(kolo_model *model)
{
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(.learning_rate = 0.01),
                                  .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .seed = 3,
                                  .backend = "reference"),
                     KOLO_OK);
}

static void learns(void **state)
{
    (void)state;
    kolo_data *train = small_data(400), *test = kolo_data_slice(train, 300, 100);
    kolo_model *model = small_model();
    compile(model);
    const kolo_history *history =
        kolo_fit(model, train, .epochs = 6, .batch_size = 20, .validation_data = test, .verbose = KOLO_NONE);
    assert_non_null(history);
    assert_int_equal(history->epochs, 6);
    assert_true(history->epoch[5].loss < 0.5 * history->epoch[0].loss);
    assert_true(history->epoch[5].val_accuracy > 0.95); /* chance is 0.25 */
    assert_int_equal(history->epoch[5].steps, 20);
    assert_int_equal(history->epoch[5].images, 400);
    assert_true(fabs(history->epoch[5].images_per_second * history->epoch[5].seconds - 400) < 1e-6);
    assert_false(history->stopped);
    kolo_model_free(&model);
    kolo_data_free(&train);
    kolo_data_free(&test);
}

/* The scores that fit gave in validation, that evaluate gives, and that the outputs of predict add up to. */
static void scores_agree(void **state)
{
    (void)state;
    kolo_data *data = small_data(101); /* not a multiple of a microbatch */
    kolo_model *model = small_model();
    compile(model);
    const kolo_history *history =
        kolo_fit(model, data, .batch_size = 32, .validation_data = data, .verbose = KOLO_NONE);
    kolo_scores scores = kolo_evaluate(model, data);
    assert_float_equal(scores.loss, history->epoch[0].val_loss, 0); /* the same tree of sums: the same bits */
    assert_float_equal(scores.accuracy, history->epoch[0].val_accuracy, 0);
    float outputs[101][SMALL_CLASSES];
    assert_int_equal(kolo_predict(model, data, outputs[0]), KOLO_OK);
    double loss = 0;
    for (int s = 0; s < 101; s++) {
        double sum = 0;
        for (int c = 0; c < SMALL_CLASSES; c++) sum += exp((double)outputs[s][c]);
        loss += log(sum) - (double)outputs[s][s % SMALL_CLASSES];
    }
    assert_float_equal(loss / 101, scores.loss, 1e-6);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void counts_steps(void **state)
{
    (void)state;
    static const struct {
        int samples, batch, limit, drop, steps, images;
    } cases[] = {{100, 32, 0, 0, 4, 100},  {100, 32, 0, 1, 3, 96},        {100, 32, 2, 0, 2, 64},
                 {100, 100, 0, 1, 1, 100}, {100, 500, 0, 0, 1, 100},      {7, 1, 0, 0, 7, 7},
                 {1, 32, 0, 0, 1, 1},      {100, INT32_MAX, 0, 0, 1, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kolo_data *data = small_data(cases[i].samples);
        kolo_model *model = small_model();
        compile(model);
        const kolo_history *history = kolo_fit(model, data, .batch_size = cases[i].batch, .verbose = KOLO_NONE,
                                               .steps_per_epoch = cases[i].limit, .drop_remainder = cases[i].drop);
        assert_non_null(history);
        assert_int_equal(history->epoch[0].steps, cases[i].steps);
        assert_int_equal(history->epoch[0].images, cases[i].images);
        assert_true(isfinite(history->epoch[0].loss));
        kolo_model_free(&model);
        kolo_data_free(&data);
    }
}

/* ---------------------------------------------------------------- callbacks */

static char calls[64];

static void note(char what)
{
    size_t length = strlen(calls);
    if (length + 1 < sizeof calls) {
        calls[length] = what;
        calls[length + 1] = '\0';
    }
}
static void train_begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)self, (void)logs;
    note('[');
}
static void train_end(kolo_callback *self, const kolo_logs *logs)
{
    (void)self, (void)logs;
    note(']');
}
static void epoch_begin(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)self, (void)epoch, (void)logs;
    note('(');
}
static void epoch_end(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    assert_true(kolo_logs_get(logs, "loss") > 0);
    assert_true(isnan(kolo_logs_get(logs, "no such thing")));
    note(')');
    if (self->number[0] > 0 && epoch + 1 == (int)self->number[0]) kolo_stop_training(self->model);
}
static void batch_begin(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)self, (void)batch, (void)logs;
    note('b');
}
static void batch_end(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)logs;
    note('e');
    if (self->number[1] > 0 && batch + 1 == (int)self->number[1]) kolo_request_stop();
}

static const kolo_callback recorder = {.name = "recorder",
                                       .on_train_begin = train_begin,
                                       .on_train_end = train_end,
                                       .on_epoch_begin = epoch_begin,
                                       .on_epoch_end = epoch_end,
                                       .on_train_batch_begin = batch_begin,
                                       .on_train_batch_end = batch_end};

static const kolo_history *fit_recorded(kolo_model *model, kolo_data *data, kolo_callback callback)
{
    calls[0] = '\0';
    return kolo_fit(model, data, .epochs = 2, .batch_size = 32, .verbose = KOLO_NONE, .callbacks = {callback});
}

static void calls_hooks_in_order(void **state)
{
    (void)state;
    kolo_data *data = small_data(64);
    kolo_model *model = small_model();
    compile(model);
    assert_int_equal(fit_recorded(model, data, recorder)->epochs, 2);
    assert_string_equal(calls, "[(bebe)(bebe)]");

    kolo_callback stopper = recorder;
    stopper.number[0] = 1; /* after the first epoch */
    const kolo_history *history = fit_recorded(model, data, stopper);
    assert_string_equal(calls, "[(bebe)]");
    assert_int_equal(history->epochs, 1);
    assert_true(history->stopped);

    stopper = recorder;
    stopper.number[1] = 1; /* in the middle of the first epoch */
    history = fit_recorded(model, data, stopper);
    assert_non_null(history);
    assert_int_equal(history->epochs, 0);
    assert_true(history->stopped);
    assert_string_equal(calls, "[(beb]"); /* a stop is obeyed before the next microbatch */
    assert_int_equal(fit_recorded(model, data, recorder)->epochs, 2); /* and is over then */
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* A callback may look at its model, but not fit, compile or free it. */
static void meddle(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)epoch, (void)logs;
    kolo_data *data = self->user;
    kolo_model *same = self->model;
    assert_true(isfinite(kolo_evaluate(same, data).loss));
    assert_null(kolo_fit(same, data));
    assert_non_null(strstr(kolo_last_error().text, "this model is being trained"));
    assert_int_equal(kolo_compile(same, .optimizer = kolo_sgd()), KOLO_INVALID);
    kolo_model_free(&same);
    assert_ptr_equal(same, self->model);
    kolo_clear_error();
}

static void a_model_in_training_is_left_alone(void **state)
{
    (void)state;
    kolo_data *data = small_data(64);
    kolo_model *model = small_model();
    compile(model);
    const kolo_history *history = kolo_fit(model, data, .epochs = 2, .verbose = KOLO_NONE,
                                           .callbacks = {{.name = "meddler", .on_epoch_end = meddle, .user = data}});
    assert_non_null(history);
    assert_int_equal(history->epochs, 2);
    kolo_model_free(&model);
    assert_null(model);
    kolo_data_free(&data);
}

/* The threads of a team stay in the parent: the child is told, and ends without waiting for them. */
static void a_forked_child_does_not_hang(void **state)
{
    (void)state;
    kolo_data *data = small_data(64);
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3,
                                  .strategy = kolo_mirrored(.devices = 3), .backend = "reference"),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, data, .verbose = KOLO_NONE));
    pid_t child = fork();
    if (child == 0) {
        bool told = kolo_fit(model, data, .verbose = KOLO_NONE) == NULL && strstr(kolo_last_error().text, "forked");
        kolo_model_free(&model);
        _exit(told ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void learning_rate_can_be_set(void **state)
{
    (void)state;
    kolo_data *data = small_data(64);
    kolo_model *model = small_model();
    compile(model);
    float before[64], after[64];
    kolo_weight weight = kolo_weight_get(model, 0);
    memcpy(before, weight.values, (size_t)weight.count * sizeof(float));
    kolo_set_learning_rate(model, 0);
    assert_non_null(kolo_fit(model, data, .verbose = KOLO_NONE));
    memcpy(after, weight.values, (size_t)weight.count * sizeof(float));
    assert_memory_equal(before, after, (size_t)weight.count * sizeof(float));
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* Weights that were loaded stay, also when the model was never compiled before. */
static void loaded_weights_are_kept(void **state)
{
    (void)state;
    char path[] = "/tmp/kolo-fit-XXXXXX";
    close(mkstemp(path));
    kolo_data *data = small_data(40);
    kolo_model *model = small_model(), *copy = small_model();
    compile(model);
    assert_int_equal(kolo_save(model, path), KOLO_OK);
    assert_int_equal(kolo_load(copy, path), KOLO_OK);
    assert_int_equal(kolo_compile(copy, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 99, .backend = "reference"), KOLO_OK);
    assert_float_equal(kolo_evaluate(copy, data).loss, kolo_evaluate(model, data).loss, 0);
    unlink(path);
    kolo_model_free(&model);
    kolo_model_free(&copy);
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- mistakes */

static void fails_with(const char *part)
{
    kolo_error error = kolo_last_error();
    if (!strstr(error.text, part)) fail_msg("wanted \"%s\" in \"%s\"", part, error.text);
    assert_non_null(strstr(error.text, "fit_test.c:"));
    kolo_clear_error();
    assert_string_equal(kolo_last_error().text, "");
}

static void mistakes_are_one_sentence(void **state)
{
    (void)state;
    kolo_data *data = small_data(50);
    kolo_model *model = small_model();
    assert_null(kolo_fit(model, data));
    fails_with("kolo_fit: wanted kolo_compile() before kolo_fit(), got a model not compiled");
    assert_true(isnan(kolo_evaluate(model, data).loss));
    fails_with("wanted kolo_compile() before kolo_evaluate()");
    assert_null(kolo_fit(NULL, data));
    fails_with("wanted a model, got NULL");
    compile(model);
    assert_null(kolo_fit(model, NULL));
    fails_with("data: wanted data, got NULL");
    assert_null(kolo_fit(model, data, .batch_size = 64, .drop_remainder = true));
    fails_with("no step would run");
    assert_null(kolo_fit(model, data, .batch_size = -5));
    fails_with(".batch_size: wanted at least 1, got -5");
    assert_null(kolo_fit(model, data, .epochs = -1));
    fails_with(".epochs: wanted at least 1, got -1");
    assert_null(kolo_fit(model, data, .steps_per_epoch = 3));
    fails_with(".steps_per_epoch: wanted at most 2");
    float features[4] = {0};
    kolo_data *other = kolo_data_from_arrays(features, NULL, .samples = 1, .shape = {2, 2, 1});
    assert_null(kolo_fit(model, other));
    fails_with("wanted samples of {8, 8, 1}, as kolo_input() says, got {2, 2, 1}");
    assert_int_not_equal(kolo_compile(model, .optimizer = kolo_adam(.learning_rate = -2)), KOLO_OK);
    fails_with("kolo_compile: adam: wanted a .learning_rate of at least 0, got -2");
    assert_int_not_equal(kolo_compile(model, .optimizer = kolo_sgd(.momentum = 1)), KOLO_OK);
    fails_with("wanted a .momentum from 0 to below 1, got 1");
    assert_int_not_equal(kolo_compile(model, .backend = "abacus"), KOLO_OK);
    fails_with("abacus");
    assert_int_not_equal(kolo_compile(model, .strategy = kolo_mirrored(.devices = 1000)), KOLO_OK);
    fails_with("got 1000");
    assert_non_null(kolo_fit(model, data, .verbose = KOLO_NONE)); /* a failed compile changed nothing */
    kolo_model_free(&model);
    kolo_model_free(&model);
    kolo_model_free(NULL);
    kolo_data_free(&data);
    kolo_data_free(&other);
}

static void models_are_checked(void **state)
{
    (void)state;
    assert_null(kolo_sequential(kolo_conv2d(3, .kernel = {3, 3}), kolo_dense(2)));
    fails_with("wanted kolo_input() as the first layer, got conv2d");
    assert_null(kolo_sequential(kolo_input(8, 8, 1)));
    fails_with("wanted kolo_input() and at least one layer after it, got one layer");
    assert_null(kolo_sequential(kolo_input(4, 4, 1), kolo_conv2d(3, .kernel = {3, 3}), kolo_max_pool2d(3, 3)));
    fails_with("layer 2 (max_pool2d): ");
    assert_null(kolo_sequential(kolo_input(4), kolo_dense(2, .name = "same"), kolo_dense(2, .name = "same")));
    fails_with("\"same\" twice");
    assert_null(kolo_sequential(kolo_input(1 << 15), kolo_dense(1 << 16), kolo_dense(1 << 16)));
    fails_with("layer ");
}

/* One failure is told; what follows from it is not. */
static void consequences_are_quiet(void **state)
{
    (void)state;
    kolo_clear_error();
    kolo_model *model = kolo_sequential(kolo_input(8, 8, 1), kolo_dropout(2));
    assert_null(model);
    char first[300];
    snprintf(first, sizeof first, "%s", kolo_last_error().text);
    assert_int_not_equal(kolo_compile(model), KOLO_OK);
    assert_null(kolo_fit(model, NULL));
    assert_string_equal(kolo_last_error().text, first);
    kolo_clear_error();
}

/* A unit that relu hides: the loss is as good as ever. It is said once. */
static void broken_weights_are_told(void **state)
{
    (void)state;
    char text[2000] = "";
    kolo_data *data = small_data(40);
    kolo_model *model = small_model();
    compile(model);
    kolo_weight_get(model, 1).values[0] = -INFINITY; /* a bias */
    FILE *file = tmpfile();
    assert_non_null(file);
    int kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    const kolo_history *history = kolo_fit(model, data, .epochs = 3, .batch_size = 40, .verbose = KOLO_NONE);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_true(pread(fileno(file), text, sizeof text - 1, 0) > 0);
    fclose(file);
    assert_true(history && isfinite(history->epoch[0].loss));
    const char *told = strstr(text, "after epoch 1 the loss or a weight is infinite or not a number");
    assert_true(told && !strstr(told + 1, "after epoch"));
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns),
        cmocka_unit_test(scores_agree),
        cmocka_unit_test(counts_steps),
        cmocka_unit_test(calls_hooks_in_order),
        cmocka_unit_test(a_model_in_training_is_left_alone),
        cmocka_unit_test(a_forked_child_does_not_hang),
        cmocka_unit_test(learning_rate_can_be_set),
        cmocka_unit_test(loaded_weights_are_kept),
        cmocka_unit_test(mistakes_are_one_sentence),
        cmocka_unit_test(models_are_checked),
        cmocka_unit_test(consequences_are_quiet),
        cmocka_unit_test(broken_weights_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
