/* One process, several devices: whatever the options, what is learnt is what one device learns; and what the options
 * cost can be told apart. */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WEIGHTS 1024

typedef struct training {
    kolo_strategy strategy;
    kolo_optimizer optimizer;
    bool deterministic;
    kolo_feed_kind feed;
    int batch;
} training;

/* Trains, and returns the weights; 90 samples in batches of 37: short batches, and microbatches that do not fill up. */
static kolo_epoch train(training t, float *weights, kolo_timings *timings)
{
    kolo_data *data = small_data(90);
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model, .optimizer = t.optimizer.kind ? t.optimizer : kolo_adam(),
                                  .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11, .metrics = {KOLO_ACCURACY},
                                  .strategy = t.strategy, .deterministic = t.deterministic),
                     KOLO_OK);
    const kolo_history *history = kolo_fit(model, data, .epochs = 3, .batch_size = t.batch ? t.batch : 37,
                                           .validation_data = data, .feed = t.feed, .verbose = KOLO_NONE);
    assert_non_null(history);
    kolo_epoch last = history->epoch[2];
    last.seconds = last.images_per_second = 0;
    int64_t count = kolo_count_params(model);
    assert_true(count <= WEIGHTS);
    memset(weights, 0, WEIGHTS * sizeof *weights);
    memcpy(weights, kolo_weight_get(model, 0).values, (size_t)count * sizeof *weights);
    if (timings) *timings = kolo_get_timings(model);
    kolo_scores scores = kolo_evaluate(model, data);
    assert_true(scores.loss == last.val_loss && scores.accuracy == last.val_accuracy);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return last;
}

/* Every combination of the options of a strategy that change nothing. */
static kolo_strategy combination(int number, int devices)
{
    static const char *const homes[] = {NULL, "host", "cpu:0", "cpu:1", "cpu:7"};
    kolo_strategy strategy = kolo_mirrored(.devices = devices);
    strategy.parameter_device = homes[number % 5];
    number /= 5;
    strategy.slicing = number & 1 ? KOLO_SLICE_ON_DEVICE : KOLO_SLICE_ON_HOST;
    strategy.last_takes_remainder = number >> 1 & 1;
    strategy.synchronized_optimizer = number >> 2 & 1;
    strategy.staging = number >> 3 & 1;
    return strategy;
}
enum { COMBINATIONS = 5 * 16 };

static void every_combination_has_the_bits_of_one_device(void **state)
{
    (void)state;
    float one[WEIGHTS], many[WEIGHTS];
    kolo_epoch first = train((training){.deterministic = true}, one, NULL);
    for (int c = 0; c < COMBINATIONS; c++) {
        static const int counts[] = {2, 3, 8};
        training t = {.strategy = combination(c, counts[c % 3]), .deterministic = true, .feed = 1 + c % 3};
        kolo_epoch other = train(t, many, NULL);
        assert_memory_equal(one, many, sizeof one);
        assert_memory_equal(&first, &other, sizeof first);
    }
}

/* Plain descent hands a gradient's rounding on as it is: a few units in the last place. */
static void every_combination_agrees(void **state)
{
    (void)state;
    float one[WEIGHTS], many[WEIGHTS];
    kolo_optimizer plain = kolo_sgd(.learning_rate = 0.1);
    kolo_epoch first = train((training){.optimizer = plain}, one, NULL);
    for (int c = 0; c < COMBINATIONS; c++) {
        kolo_epoch other = train((training){.strategy = combination(c, 2 + c % 7), .optimizer = plain}, many, NULL);
        for (int i = 0; i < WEIGHTS; i++) assert_float_equal(one[i], many[i], 2e-6);
        assert_float_equal(first.loss, other.loss, 1e-6);
        assert_float_equal(first.images, other.images, 0);
    }
}

/* Norms of whole arrays, numbers of arrays, gathered batches: all that an update needs besides its own elements. */
static void every_kind_of_update_is_shared(void **state)
{
    (void)state;
    const kolo_optimizer optimizers[] = {
        kolo_lamb(),
        kolo_novograd(),
        kolo_lars(),
        kolo_adam(.clip_norm = 0.1),
        kolo_adamw(.global_clip_norm = 0.5, .weight_decay = 0.01),
        kolo_sgd(.learning_rate = 0.1, .momentum = 0.9, .accumulate_steps = 2),
        kolo_novograd(.clip_value = 0.01, .accumulate_steps = 3),
    };
    const kolo_strategy strategies[] = {kolo_mirrored(.devices = 5), kolo_central_storage(.devices = 5),
                                        kolo_mirrored(.devices = 3, .synchronized_optimizer = true)};
    float one[WEIGHTS], many[WEIGHTS];
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++) {
        train((training){.optimizer = optimizers[o], .deterministic = true}, one, NULL);
        for (int s = 0; s < 3; s++) {
            train((training){.strategy = strategies[s], .optimizer = optimizers[o], .deterministic = true}, many, NULL);
            assert_memory_equal(one, many, sizeof one);
        }
    }
}

/* Without deterministic mode an all-reduce and one place have the same order of sums; devices that share the weights
 * have that of the one tree always. */
static void whoever_sums_the_bits_are_the_same(void **state)
{
    (void)state;
    float first[WEIGHTS], other[WEIGHTS];
    kolo_optimizer optimizer = kolo_adam(.accumulate_steps = 2);
    for (int devices = 2; devices <= 8; devices += 3) {
        train((training){.strategy = kolo_central_storage(.devices = devices), .optimizer = optimizer}, first, NULL);
        kolo_strategy copies = kolo_mirrored(.devices = devices, .synchronized_optimizer = true);
        train((training){.strategy = copies, .optimizer = optimizer}, other, NULL);
        assert_memory_equal(first, other, sizeof other);
    }
    train((training){.strategy = kolo_mirrored(.devices = 8), .optimizer = optimizer, .batch = 48}, first, NULL);
    train((training){.strategy = kolo_mirrored(.devices = 8), .optimizer = optimizer, .batch = 48}, other, NULL);
    assert_memory_equal(first, other, sizeof other);
}

static void one_device_is_the_serial_model(void **state)
{
    (void)state;
    float serial[WEIGHTS], mirrored[WEIGHTS];
    train((training){0}, serial, NULL);
    const kolo_strategy one[] = {kolo_mirrored(.devices = 1), kolo_mirrored(.device_names = {"cpu:3"}),
                                 kolo_central_storage(.devices = 1, .staging = true, .slicing = KOLO_SLICE_ON_DEVICE),
                                 kolo_mirrored(.devices = 1, .initial_sync = KOLO_NONE)};
    for (int i = 0; i < 4; i++) {
        kolo_timings timings;
        train((training){.strategy = one[i]}, mirrored, &timings);
        assert_memory_equal(serial, mirrored, sizeof serial);
        assert_int_equal(timings.reduced_bytes + timings.updated_bytes, 0);
    }
}

static kolo_timings timings_of(kolo_strategy strategy)
{
    float weights[WEIGHTS];
    kolo_timings timings;
    train((training){.strategy = strategy, .batch = 64}, weights, &timings);
    return timings;
}

#ifndef KOLO_TEST_OWN_MEMORIES /* devices have weights of their own, and slice samples on the device */
#define KOLO_TEST_OWN_MEMORIES false
#endif

/* 90 samples of 8×8 floats, a label and a weight, three epochs of two steps on four devices. */
static void what_is_copied_tells_them_apart(void **state)
{
    (void)state;
    if (KOLO_TEST_OWN_MEMORIES) skip();
    int64_t samples = 3 * 90 * (64 * 4 + 4 + 4);
    kolo_model *model = small_model();
    int64_t weights = kolo_count_params(model) * 4;
    kolo_model_free(&model);
    kolo_timings shares = timings_of(kolo_mirrored(.devices = 4));
    assert_int_equal(shares.steps, 6);
    assert_int_equal(shares.sliced_bytes, samples);
    assert_int_equal(shares.reduced_bytes, 6 * 4 * (weights * 3 / 4));
    assert_int_equal(shares.updated_bytes, 0); /* the weights are in memory that all share */
    kolo_timings copies = timings_of(kolo_mirrored(.devices = 4, .synchronized_optimizer = true));
    assert_int_equal(copies.reduced_bytes, 6 * 4 * 2 * (weights * 3 / 4));
    assert_int_equal(copies.updated_bytes, 0);
    kolo_timings host = timings_of(kolo_central_storage(.devices = 4));
    assert_int_equal(host.reduced_bytes, 6 * 4 * weights);
    assert_int_equal(host.updated_bytes, 6 * 4 * weights);
    kolo_timings first = timings_of(kolo_central_storage(.devices = 4, .parameter_device = "cpu:0"));
    assert_int_equal(first.reduced_bytes, 6 * 3 * weights);
    kolo_timings whole = timings_of(kolo_mirrored(.devices = 4, .slicing = KOLO_SLICE_ON_DEVICE));
    assert_int_equal(whole.sliced_bytes, samples * (4 + 1)); /* the batch to each, and its slice from there */
    kolo_timings staged = timings_of(kolo_mirrored(.devices = 4, .staging = true));
    assert_int_equal(staged.sliced_bytes, samples * 2);
    assert_true(shares.slicing > 0 && shares.compute > 0 && shares.reduce > 0 && shares.update > 0);
}

static void replicas_that_begin_apart_are_told(void **state)
{
    (void)state;
    float one[WEIGHTS], apart[WEIGHTS];
    char text[512] = "";
    int err = dup(2);
    FILE *file = tmpfile();
    assert_non_null(file);
    dup2(fileno(file), 2);
    train((training){.strategy = kolo_mirrored(.devices = 2)}, one, NULL);
    long quiet = lseek(2, 0, SEEK_CUR);
    train((training){.strategy = kolo_mirrored(.devices = 2, .initial_sync = KOLO_NONE)}, apart, NULL);
    dup2(err, 2);
    close(err);
    rewind(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_int_equal(quiet, 0);
    assert_non_null(strstr(text, "replica 1 starts from other weights than replica 0"));
    assert_memory_not_equal(one, apart, sizeof one);
}

static void assert_refused(kolo_strategy strategy, const char *sentence)
{
    kolo_model *model = small_model();
    kolo_clear_error();
    assert_int_not_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY,
                                      .strategy = strategy),
                         KOLO_OK);
    if (!strstr(kolo_last_error().text, sentence))
        fail_msg("wanted \"%s\", got \"%s\"", sentence, kolo_last_error().text);
    kolo_clear_error();
    kolo_model_free(&model);
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    assert_refused(kolo_mirrored(.devices = 9), "wanted 1 to 8 devices");
    assert_refused(kolo_mirrored(.devices = -1), "wanted 1 to 8 devices");
    assert_refused(kolo_mirrored(.device_names = {"cpu:0", "gpu:1"}), ".device_names: wanted \"cpu:0\" to \"cpu:7\"");
    assert_refused(kolo_mirrored(.device_names = {"cpu:0", "cpu:8"}), "got \"cpu:8\"");
    assert_refused(kolo_mirrored(.device_names = {"cpu:0", "cpu:0"}), "got \"cpu:0\" twice");
    assert_refused(kolo_mirrored(.device_names = {"cpu:0"}, .devices = 2), "got 2 and 1 names");
    assert_refused(kolo_mirrored(.parameter_device = "cpu:9"), ".parameter_device: wanted \"host\" or \"cpu:0\"");
    assert_refused(kolo_central_storage(.parameter_device = ""), ".parameter_device");
    assert_refused(kolo_strategy_of(.parameter_device = "gpu:0"), "one_device: .parameter_device: wanted \"host\"");
    assert_refused(kolo_mirrored(.slicing = 3), ".slicing: wanted KOLO_SLICE_ON_HOST");
    assert_refused(kolo_mirrored(.initial_sync = 2), ".initial_sync: wanted");
}

/* ---- A strategy of one's own, from what is public ---- */

typedef struct kolo_replica kolo_replica;
#include "strategy/strategy.h"

static kolo_status own_replicas(const kolo_strategy *strategy, int *count)
{
    *count = strategy->devices ? strategy->devices : 2;
    return KOLO_OK;
}

static kolo_status own_step(kolo_replica *replica, const kolo_batch *batch)
{
    kolo_status status = kolo_replica_compute(replica, batch);
    if (status == KOLO_OK) status = kolo_replica_reduce(replica);
    return status == KOLO_OK ? kolo_replica_update(replica) : status;
}

static void a_strategy_of_ones_own_trains(void **state)
{
    (void)state;
    const kolo_strategy_kind own = {.name = "own", .replicas = own_replicas, .step = own_step};
    float one[WEIGHTS], many[WEIGHTS];
    train((training){.deterministic = true}, one, NULL);
    train((training){.strategy = kolo_strategy_of(&own, .devices = 3), .deterministic = true}, many, NULL);
    assert_memory_equal(one, many, sizeof one);
    train((training){.strategy = kolo_strategy_of(&own, .devices = 3, .staging = true), .deterministic = true}, many,
          NULL);
    assert_memory_equal(one, many, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_has_the_bits_of_one_device),
        cmocka_unit_test(every_combination_agrees),
        cmocka_unit_test(every_kind_of_update_is_shared),
        cmocka_unit_test(whoever_sums_the_bits_are_the_same),
        cmocka_unit_test(one_device_is_the_serial_model),
        cmocka_unit_test(what_is_copied_tells_them_apart),
        cmocka_unit_test(a_strategy_of_ones_own_trains),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(replicas_that_begin_apart_are_told),
    };
    setenv("KOLO_THREADS", "2",
           1); /* fewer cores than devices, which then are computed together; and a core for each */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    const struct CMUnitTest again[] = {cmocka_unit_test(every_kind_of_update_is_shared),
                                       cmocka_unit_test(whoever_sums_the_bits_are_the_same),
                                       cmocka_unit_test(what_is_copied_tells_them_apart)};
    setenv("KOLO_THREADS", "8", 1);
    return failed + cmocka_run_group_tests(again, NULL, NULL);
}
