/* Checkpoints within one process: what they hold, what is refused, and that a refusal changes nothing. That a resume
 * equals the uninterrupted run is test_checkpoint.py's. */
#include "core/file.h"
#include "saving/safetensors.h"
#include "core/clock.h"
#include "replica/trainer.h"
#include "ext/core/small.h"
#include "ext/data/files.h"

static kolo_data *data;
static kolo_model *model;

static void compile(kolo_model *compiled, kolo_optimizer optimizer)
{
    assert_int_equal(kolo_compile(compiled, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .metrics = {KOLO_ACCURACY}, .seed = 5, .backend = "reference", .deterministic = true),
                     KOLO_OK);
}

static int begin(void **state)
{
    (void)state;
    data = small_data(40);
    model = small_model();
    compile(model, kolo_adam());
    kolo_clear_error();
    return 0;
}

static int end(void **state)
{
    (void)state;
    kolo_model_free(&model);
    kolo_data_free(&data);
    return 0;
}

#define FIT(...) kolo_fit(model, data, .batch_size = 8, .verbose = KOLO_NONE, __VA_ARGS__)

static float first_weight(void)
{
    return kolo_weight_get(model, 0).values[0];
}

static void a_training_is_put_back(void **state)
{
    (void)state;
    assert_non_null(FIT(.epochs = 2));
    kolo_set_learning_rate(model, 0.25);
    assert_int_equal(kolo_checkpoint_save(model, "state"), KOLO_OK);
    float wanted = first_weight();
    assert_non_null(FIT(.epochs = 1));
    kolo_set_learning_rate(model, 1);
    assert_true(first_weight() != wanted);
    assert_int_equal(kolo_checkpoint_load(model, "state"), KOLO_OK);
    assert_float_equal(first_weight(), wanted, 0);
    assert_float_equal(kolo_get_learning_rate(model), 0.25, 0);
    assert_int_equal(model->trainer->replicas[0].counters.updates, 10);
    assert_int_equal(model->position.epoch, 2);
}

static void weights_and_layers_are_read_from_it(void **state)
{
    (void)state;
    assert_non_null(FIT(.epochs = 1));
    assert_int_equal(kolo_checkpoint_save(model, "state"), KOLO_OK);
    kolo_model *again = kolo_load_model("state"), *other = small_model();
    assert_non_null(again);
    assert_float_equal(kolo_weight_get(again, 0).values[0], first_weight(), 0);
    assert_int_equal(kolo_load(other, "state"), KOLO_OK);
    assert_float_equal(kolo_weight_get(other, 0).values[0], first_weight(), 0);
    kolo_model_free(&again);
    kolo_model_free(&other);
}

/* A checkpoint before the first fit holds the optimizer's state as that fit would find it. */
static void before_the_first_fit(void **state)
{
    (void)state;
    assert_int_equal(kolo_checkpoint_save(model, "state"), KOLO_OK);
    double straight = FIT(.epochs = 2)->epoch[1].loss;
    assert_int_equal(kolo_checkpoint_load(model, "state"), KOLO_OK);
    assert_float_equal(FIT(.epochs = 2, .resume = true)->epoch[1].loss, straight, 0);
}

static void stop_at_three(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)logs;
    if (batch == 3) kolo_stop_training(self->model);
}

/* The best epoch is the one with the largest loss, the first: it lies before the resume. */
static void the_best_weights_outlive_a_resume(void **state)
{
    (void)state;
    const kolo_callback stopping =
        kolo_early_stopping(.monitor = "loss", .mode = KOLO_MAX, .patience = 9, .restore_best_weights = true);
    assert_non_null(FIT(.epochs = 5, .callbacks = {stopping}));
    float wanted = first_weight();
    compile(model, kolo_adam());
    kolo_model *other = small_model();
    compile(other, kolo_adam());
    assert_int_equal(kolo_save(other, "fresh"), KOLO_OK);
    assert_int_equal(kolo_load(model, "fresh"), KOLO_OK);
    assert_non_null(FIT(.epochs = 2, .callbacks = {stopping, kolo_model_checkpoint("state", .monitor = "loss")}));
    assert_float_equal(first_weight(), wanted, 0);
    assert_int_equal(kolo_checkpoint_load(other, "state"), KOLO_OK);
    assert_true(kolo_weight_get(other, 0).values[0] != wanted);
    assert_non_null(kolo_fit(other, data, .batch_size = 8, .epochs = 5, .resume = true, .verbose = KOLO_NONE,
                             .callbacks = {stopping}));
    assert_float_equal(kolo_weight_get(other, 0).values[0], wanted, 0);
    assert_int_equal(kolo_load(other, "state"), KOLO_OK); /* the weights alone */
    assert_true(kolo_weight_get(other, 0).values[0] != wanted);
    kolo_model_free(&other);
}

/* .resume goes on after a stop, too, with nothing loaded: the epoch as if it had not been stopped. */
static void a_stopped_fit_goes_on(void **state)
{
    (void)state;
    assert_int_equal(kolo_checkpoint_save(model, "state"), KOLO_OK);
    const kolo_epoch straight = FIT(.epochs = 1)->epoch[0];
    assert_int_equal(kolo_checkpoint_load(model, "state"), KOLO_OK);
    const kolo_history *history = FIT(.epochs = 1, .callbacks = {{.on_train_batch_end = stop_at_three}});
    assert_true(history->stopped);
    assert_int_equal(history->epochs, 0);
    history = FIT(.epochs = 1, .resume = true);
    assert_int_equal(history->epochs, 1);
    assert_float_equal(history->epoch[0].loss, straight.loss, 0);
    assert_float_equal(history->epoch[0].accuracy, straight.accuracy, 0);
    assert_int_equal(history->epoch[0].images, 40);
    assert_int_equal(FIT(.epochs = 1, .resume = true)->epochs, 0); /* it is done */
    kolo_data *less = small_data(24);
    FIT(.epochs = 1, .callbacks = {{.on_train_batch_end = stop_at_three}});
    assert_null(kolo_fit(model, less, .batch_size = 8, .epochs = 1, .resume = true));
    assert_failure(KOLO_INVALID, "kolo_fit: wanted 40 samples to go on within an epoch, got 24", NULL);
    kolo_data_free(&less);
    history = kolo_fit(model, data, .batch_size = 4, .epochs = 1, .resume = true); /* the epoch begins anew */
    assert_int_equal(history->epoch[0].steps, 10);
    assert_int_equal(history->epoch[0].images, 40);
}

/* ------------------------------------------------------------------------------------------ what is said and timed */

#define PAUSE 0.05

static void pause_and_save(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)logs;
    usleep((useconds_t)(PAUSE * 1e6));
    if (batch == (int)self->number[0]) {
        assert_int_equal(kolo_checkpoint_save(self->model, "state"), KOLO_OK);
        kolo_stop_training(self->model);
    }
}

static double told_seconds;
static void note_seconds(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)self, (void)epoch;
    told_seconds = kolo_logs_get(logs, "seconds");
}

/* Cut after three of five steps, and after all of them. */
static void an_epoch_keeps_the_time_that_it_took_before(void **state)
{
    (void)state;
    for (int last = 2; last <= 4; last += 2) {
        double began = kolo_now();
        kolo_callback cut = {.on_train_batch_end = pause_and_save, .number = {last}};
        assert_non_null(FIT(.epochs = 1, .callbacks = {cut}));
        kolo_model *other = small_model();
        compile(other, kolo_adam());
        assert_int_equal(kolo_checkpoint_load(other, "state"), KOLO_OK);
        const kolo_history *history = kolo_fit(other, data, .batch_size = 8, .resume = true, .verbose = KOLO_NONE,
                                               .callbacks = {{.on_epoch_end = note_seconds}});
        assert_int_equal(history->epochs, 1);
        const kolo_epoch *epoch = &history->epoch[0];
        assert_true(epoch->seconds > PAUSE * last); /* the last pause is after the last step */
        assert_true(epoch->seconds < kolo_now() - began);
        assert_float_equal(told_seconds, epoch->seconds, 0);
        assert_int_equal(epoch->images, 40);
        assert_true(fabs(epoch->images_per_second * epoch->seconds - 40) < 1e-6);
        kolo_model_free(&other);
    }
}

/* What kolo_fit() prints first. */
static const char *said(kolo_model *trained, kolo_data *with, uint64_t seed, double rate, int batch)
{
    static char text[1000];
    fflush(stdout);
    int kept = dup(STDOUT_FILENO), file = open("said", O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(file, STDOUT_FILENO);
    kolo_compile(trained, .optimizer = kolo_adam(.learning_rate = rate), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .seed = seed);
    kolo_checkpoint_load(trained, "state");
    kolo_fit(trained, with, .epochs = 3, .batch_size = batch, .resume = true, .verbose = 2);
    fflush(stdout);
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? strcspn(text, "\n") : 0] = 0;
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(file);
    return text;
}

static void it_is_said_where_a_fit_goes_on(void **state)
{
    (void)state;
    kolo_data *less = small_data(24);
    kolo_model *first = small_model();
    kolo_compile(first, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5);
    kolo_fit(first, data, .epochs = 2, .batch_size = 8, .verbose = KOLO_NONE);
    assert_int_equal(kolo_checkpoint_save(first, "state"), KOLO_OK);
    assert_string_equal(said(first, data, 5, 0.001, 8), "Goes on with epoch 3/3 from state");
    assert_string_equal(said(first, less, 7, 0.5, 12),
                        "Goes on with epoch 3/3 from state: seed 5 instead of 7, a learning rate of 0.001 instead of "
                        "0.5, steps of 12 samples instead of 8, 24 samples in the data instead of 40");
    kolo_callback cut = {.on_train_batch_end = pause_and_save, .number = {2}};
    kolo_fit(first, data, .batch_size = 8, .callbacks = {cut}, .verbose = KOLO_NONE);
    assert_string_equal(said(first, data, 5, 0.001, 8), "Goes on with epoch 1/3, 3/5 steps done, from state");
    kolo_model_free(&first);
    kolo_data_free(&less);
}

static int last_epoch;
static void note_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)self;
    (void)logs;
    last_epoch = epoch;
}

static void epochs_are_numbered_from_the_initial_one(void **state)
{
    (void)state;
    const kolo_history *history = FIT(.epochs = 5, .initial_epoch = 3, .callbacks = {{.on_epoch_end = note_epoch}});
    assert_int_equal(history->epochs, 2);
    assert_int_equal(last_epoch, 4);
    assert_null(FIT(.epochs = 5, .initial_epoch = 3, .resume = true));
    assert_failure(KOLO_INVALID, "wanted .resume or .initial_epoch, got both", NULL);
    assert_null(FIT(.initial_epoch = -1));
    assert_failure(KOLO_INVALID, ".initial_epoch: wanted", NULL);
}

/* ------------------------------------------------------------------------------------------ refusals */

static void refuse(const char *path, const char *sentence)
{
    float before = first_weight();
    assert_int_not_equal(kolo_checkpoint_load(model, path), KOLO_OK);
    assert_failure(kolo_last_error().code, "kolo_checkpoint_load: ", sentence, NULL);
    assert_float_equal(first_weight(), before, 0);
}

static void others_files_are_refused(void **state)
{
    (void)state;
    assert_int_equal(kolo_save(model, "weights"), KOLO_OK);
    refuse("weights", "weights: wanted a file that kolo_checkpoint_save() wrote");
    refuse("nothing", "nothing: wanted a file to read");
    compile(model, kolo_sgd());
    FIT(.epochs = 1);
    assert_int_equal(kolo_checkpoint_save(model, "state"), KOLO_OK);
    compile(model, kolo_adam());
    refuse("state", "state: wanted a checkpoint of the optimizer adam, got one of sgd");
    compile(model, (kolo_optimizer){0});
    refuse("state", "wanted kolo_compile() with an .optimizer");
    assert_int_equal(kolo_checkpoint_save(model, "other"), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "kolo_checkpoint_save: wanted kolo_compile() with an .optimizer", NULL);
    assert_int_equal(kolo_checkpoint_save(model, NULL), KOLO_INVALID);
    kolo_clear_error();
}

/* The checkpoint of a fit that was stopped within an epoch, with another state in its metadata. */
static void write_state(const char *text)
{
    kolo_safetensors from;
    kolo_array arrays[32];
    float values[4096];
    int count = 0;
    assert_int_equal(kolo_safetensors_open(&from, "state"), KOLO_OK);
    const char *name;
    json_t *entry;
    json_object_foreach(from.header, name, entry)
    {
        if (!kolo_safetensors_has(&from, name)) continue;
        kolo_array *array = &arrays[count++];
        *array = (kolo_array){.name = name, .values = values};
        json_t *sizes = json_object_get(entry, "shape");
        for (size_t i = 0; i < json_array_size(sizes); i++)
            array->shape.dim[array->shape.rank++] = (int)json_integer_value(json_array_get(sizes, i));
    }
    memset(values, 0, sizeof values);
    json_t *metadata = json_pack("{s:s}", "kolo.checkpoint", text);
    assert_int_equal(kolo_safetensors_write("bad", arrays, count, metadata), KOLO_OK);
    json_decref(metadata);
    kolo_safetensors_close(&from);
}

#define COUNTERS "\"steps\":\"4\",\"updates\":\"4\",\"waiting\":\"0\",\"waiting_samples\":\"0\""
#define STATE(rest)                                                                                                    \
    "{\"optimizer\":\"adam\"," COUNTERS ",\"learning_rate\":\"0.001\",\"seed\":\"5\",\"epoch\":\"0\"," rest "}"

static const struct bad_state {
    const char *text, *sentence;
} bad_states[] = {
    {"no JSON", "bad: wanted its state as a JSON object, got "},
    {"[]", "bad: wanted its state as a JSON object, got something else"},
    {"{}", "got one of none"},
    {"{\"optimizer\":\"adam\"}", "steps: wanted a text of digits, at most 9223372036854775807, got nothing"},
    {"{\"optimizer\":\"adam\",\"steps\":\"-1\"}", "steps: wanted a text of digits"},
    {"{\"optimizer\":\"adam\",\"steps\":\"99999999999999999999\"}", "steps: wanted a text of digits"},
    {"{\"optimizer\":\"adam\",\"steps\":\"1\",\"updates\":\"1\",\"waiting\":\"1\",\"waiting_samples\":\"8\"}",
     "waiting: wanted fewer batches than .accumulate_steps, which is 1, got 1"},
    {"{\"optimizer\":\"adam\"," COUNTERS ",\"seed\":\"1\",\"learning_rate\":\"nan\"}", "at least 0, got nan"},
    {"{\"optimizer\":\"adam\"," COUNTERS ",\"seed\":\"1\",\"learning_rate\":\"fast\"}", "wanted a number as text"},
    {STATE("\"step\":\"4294967296\""), "step: wanted a text of digits, at most 2147483647"},
    {STATE("\"step\":\"4\""), "order: wanted a text of digits"},
    {STATE("\"step\":\"4\",\"order\":\"0\",\"samples\":\"40\",\"batch\":\"8\",\"all\":[\"1\"]"),
     "all: wanted 5 sums, as the model's .metrics keep, got 1"},
    {STATE("\"step\":\"4\",\"order\":\"0\",\"samples\":\"40\",\"batch\":\"8\",\"all\":[1,2,3,4,5]"),
     "all: wanted a number as text, got 1"},
    {STATE("\"step\":\"4\",\"order\":\"0\",\"samples\":\"40\",\"batch\":\"8\",\"all\":[\"1\",\"1\",\"1\",\"1\",\"1\"],"
           "\"own\":[\"1\",\"1\",\"1\",\"1\",\"1\"],\"seconds\":\"-1\""),
     "seconds: wanted at least 0, got -1"},
    {STATE("\"step\":\"0\",\"samples\":\"40\""), "batch: wanted a text of digits"},
    {STATE("\"step\":\"0\",\"numbers\":{\"a\":3}"), "numbers: wanted a number as text, got 3"},
    {STATE("\"step\":\"0\",\"kept\":[\"best\", 3]"), "kept: wanted at most 16 names of 1 to 63 bytes, got "},
    {STATE("\"step\":\"0\",\"kept\":[\"best\"]"), "wanted an array \"optimizer/kept0/conv2d.kernel\", got none"},
};

static void broken_states_are_refused(void **state)
{
    (void)state;
    FIT(.epochs = 1, .callbacks = {{.on_train_batch_end = stop_at_three}});
    assert_int_equal(kolo_checkpoint_save(model, "state"), KOLO_OK);
    for (size_t i = 0; i < sizeof bad_states / sizeof *bad_states; i++) {
        write_state(bad_states[i].text);
        refuse("bad", bad_states[i].sentence);
    }
    write_state(STATE("\"step\":\"0\""));
    assert_int_equal(kolo_checkpoint_load(model, "bad"), KOLO_OK);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_training_is_put_back),
        TEST(weights_and_layers_are_read_from_it),
        TEST(before_the_first_fit),
        TEST(a_stopped_fit_goes_on),
        TEST(epochs_are_numbered_from_the_initial_one),
        TEST(others_files_are_refused),
        TEST(broken_states_are_refused),
        TEST(the_best_weights_outlive_a_resume),
        TEST(an_epoch_keeps_the_time_that_it_took_before),
        TEST(it_is_said_where_a_fit_goes_on),
    };
    return cmocka_run_group_tests_name("core/checkpoint", tests, enter_folder, leave_folder);
}
