/* How samples come to the step: whatever feeds, the numbers are the same; what is slow is hidden, what fails is said.
 */
#include "ext/core/small.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

static void nap(double seconds)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

/* ---- Feeds ---- */

static kolo_model *compiled(kolo_strategy strategy, bool deterministic)
{
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5,
                                  .strategy = strategy, .deterministic = deterministic),
                     KOLO_OK);
    return model;
}

static const struct feeding {
    kolo_feed_kind feed;
    int capacity, threads;
} feedings[] = {{0, 0, 0},
                {KOLO_FEED_SYNCHRONOUS, 0, 0},
                {KOLO_FEED_STAGED, 0, 0},
                {KOLO_FEED_QUEUE, 0, 0},
                {KOLO_FEED_QUEUE, 1, 1},
                {KOLO_FEED_QUEUE, 3, 5},
                {KOLO_FEED_QUEUE, 2000000000, 2}};
enum { FEEDINGS = sizeof feedings / sizeof *feedings };

static void every_feed_gives_the_same_bits(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {kolo_one_device(), kolo_mirrored(.devices = 3),
                                        kolo_mirrored(.devices = 3, .staging = true),
                                        kolo_central_storage(.devices = 2, .slicing = KOLO_SLICE_ON_DEVICE)};
    float first[1024], other[1024];
    kolo_data *data = small_data(90);
    for (int f = 0; f < FEEDINGS; f++) {
        for (int s = 0; s < 4; s++) {
            kolo_model *model = compiled(strategies[s], true);
            assert_non_null(kolo_fit(model, data, .epochs = 2, .batch_size = 20, .feed = feedings[f].feed,
                                     .queue_capacity = feedings[f].capacity, .feed_threads = feedings[f].threads,
                                     .verbose = KOLO_NONE));
            size_t bytes = (size_t)kolo_count_params(model) * sizeof(float);
            memcpy(f + s ? other : first, kolo_weight_get(model, 0).values, bytes);
            if (f + s) assert_memory_equal(first, other, bytes);
            kolo_model_free(&model);
        }
    }
    kolo_data_free(&data);
}

static atomic_int mapped; /* samples so far */

static kolo_status count_sample(const kolo_map_sample *sample)
{
    memcpy(sample->out, sample->in, (size_t)sample->in_count * sizeof *sample->in);
    atomic_fetch_add(&mapped, 1);
    return KOLO_OK;
}

enum { BATCH = 16, BATCHES = 10 };

/* Ends a step only after the next batch has been begun. Without an end where nothing is made ahead. */
static void wait_for_the_next_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)self, (void)logs;
    while (batch + 1 < BATCHES && atomic_load(&mapped) <= BATCH * (batch + 1)) nap(0.001);
}

static void expect_no_next_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)self, (void)logs;
    nap(0.01); /* in which one could be begun */
    assert_int_equal(atomic_load(&mapped), BATCH * (batch + 1));
}

/* How many samples an epoch has mapped. */
static int mapped_in_epoch(kolo_data *data, kolo_feed_kind feed,
                           void (*at_end)(kolo_callback *, int, const kolo_logs *))
{
    kolo_model *model = compiled(kolo_one_device(), false);
    kolo_callback callback = {.name = "observes", .on_train_batch_end = at_end};
    atomic_store(&mapped, 0);
    assert_non_null(kolo_fit(model, data, .batch_size = BATCH, .feed = feed, .verbose = KOLO_NONE,
                             .callbacks = {callback}));
    kolo_model_free(&model);
    return atomic_load(&mapped);
}

/* Staged or prefetched, a batch is made while the step before it computes; synchronous, it is made after that. */
static void staging_hides_what_is_slow(void **state)
{
    (void)state;
    setenv("KOLO_THREADS", "1", 1);
    kolo_data *plain = small_data(BATCH * BATCHES), *data = kolo_map(plain, count_sample);
    kolo_data *ahead = kolo_prefetch(data, 2, .threads = 1), *kept = kolo_cache(data);
    assert_int_equal(mapped_in_epoch(data, KOLO_FEED_SYNCHRONOUS, expect_no_next_batch), BATCH * BATCHES);
    assert_int_equal(mapped_in_epoch(data, KOLO_FEED_STAGED, wait_for_the_next_batch), BATCH * BATCHES);
    assert_int_equal(mapped_in_epoch(ahead, 0, wait_for_the_next_batch), BATCH * BATCHES);
    assert_int_equal(mapped_in_epoch(kept, 0, NULL), BATCH * BATCHES);
    assert_int_equal(mapped_in_epoch(kept, 0, NULL), 0);
    kolo_data_free(&plain), kolo_data_free(&data), kolo_data_free(&ahead), kolo_data_free(&kept);
    unsetenv("KOLO_THREADS");
}

static kolo_status failing(const kolo_map_sample *sample)
{
    memcpy(sample->out, sample->in, (size_t)sample->in_count * sizeof *sample->in);
    return sample->number == 61 ? KOLO_FORMAT : KOLO_OK;
}

static void a_failure_ends_the_fit(void **state)
{
    (void)state;
    kolo_data *plain = small_data(90), *data = kolo_map(plain, failing);
    for (int f = 0; f < FEEDINGS; f++) {
        for (int devices = 1; devices <= 3; devices += 2) {
            kolo_model *model = compiled(kolo_mirrored(.devices = devices, .staging = f == 2), false);
            kolo_clear_error();
            assert_null(kolo_fit(model, data, .batch_size = 20, .feed = feedings[f].feed, .epochs = 3,
                                 .queue_capacity = feedings[f].capacity, .feed_threads = feedings[f].threads,
                                 .verbose = KOLO_NONE));
            assert_int_equal(kolo_last_error().code, KOLO_FORMAT);
            assert_non_null(strstr(kolo_last_error().text, "the function of kolo_map() failed for sample 61"));
            kolo_clear_error();
            assert_non_null(kolo_fit(model, plain, .feed = feedings[f].feed, .verbose = KOLO_NONE)); /* goes on */
            kolo_model_free(&model);
        }
    }
    kolo_data_free(&plain), kolo_data_free(&data);
}

static kolo_status stopping(const kolo_map_sample *sample)
{
    if (atomic_fetch_add((atomic_int *)sample->context, 1) == 50) kolo_request_stop();
    nap(0.001);
    return KOLO_OK;
}

static void a_stop_is_obeyed_while_waiting(void **state)
{
    (void)state;
    kolo_data *plain = small_data(4000);
    for (int f = 0; f < FEEDINGS; f++) {
        atomic_int seen = 0;
        kolo_data *data = kolo_map(plain, stopping, .context = &seen);
        kolo_model *model = compiled(kolo_one_device(), false);
        const kolo_history *history =
            kolo_fit(model, data, .batch_size = 2000, .feed = feedings[f].feed, .queue_capacity = feedings[f].capacity,
                     .feed_threads = feedings[f].threads, .verbose = KOLO_NONE);
        assert_non_null(history);
        assert_true(history->stopped && history->epochs == 0);
        assert_true(atomic_load(&seen) < 1500);
        kolo_model_free(&model);
        kolo_data_free(&data);
    }
    kolo_data_free(&plain);
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    kolo_data *data = small_data(8);
    kolo_model *model = compiled(kolo_one_device(), false);
    assert_null(kolo_fit(model, data, .feed = 4));
    assert_non_null(strstr(kolo_last_error().text, ".feed: wanted KOLO_FEED_SYNCHRONOUS"));
    kolo_clear_error();
    assert_null(kolo_fit(model, data, .queue_capacity = 3));
    assert_non_null(strstr(kolo_last_error().text, ".queue_capacity: wanted .feed = KOLO_FEED_QUEUE beside it"));
    kolo_clear_error();
    assert_null(kolo_fit(model, data, .feed = KOLO_FEED_QUEUE, .feed_threads = 1000));
    assert_non_null(strstr(kolo_last_error().text, ".feed_threads: wanted at most 256"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feed_gives_the_same_bits), cmocka_unit_test(staging_hides_what_is_slow),
        cmocka_unit_test(a_failure_ends_the_fit),         cmocka_unit_test(a_stop_is_obeyed_while_waiting),
        cmocka_unit_test(wrong_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
