/* Gradients that a second stream sums in buckets beside the backward pass (replica/second_stream.h), among the devices
 * of one process: the bits are those of one sum after the pass, and the sums begin before the pass has ended. Ranks are
 * in test_overlap_ranks.py. A hang is ended by alarm(). */
#ifndef KOLO_TESTS_ON_CUDA_H
#include "ext/backend/enqueued/on_enqueued.h"
#define NETWORKS 16
#else
#define NETWORKS 4 /* which take ten times as long on simulated GPUs */
#endif

#include "ext/backend/random_networks.h"
#include "ext/core/checksum.h"

#include "replica/overlap.h"

#include <unistd.h>

enum { MINUTES = 10, SAMPLES = 70, DEVICES = 4 };

/* ---------------------------------------------------------------- trainings */

/* How a network is trained, drawn by its number. */
typedef struct setting {
    int bucket_bytes, accumulate, batch, microbatch, devices;
    kolo_precision precision;
} setting;

static setting setting_of(int number)
{
    dice d = {(uint64_t)number * 2654435761u + 77};
    for (int i = 0; i < 4; i++) roll(&d);
    static const kolo_precision precisions[] = {KOLO_FLOAT32, KOLO_FLOAT32, KOLO_FLOAT32, KOLO_MIXED_FP16};
    setting made = {.bucket_bytes = roll_between(&d, 1, 3) * roll_between(&d, 1, 300),
                    .accumulate = roll_between(&d, 1, 3),
                    .batch = roll_between(&d, 8, 30),
                    .microbatch = roll_between(&d, 1, 6),
                    .devices = roll_between(&d, 2, DEVICES)};
    made.precision = precisions[roll_between(&d, 0, 3)];
    if (number % 4 == 1) made.batch = 3, made.microbatch = 1, made.devices = DEVICES; /* one device has no samples */
    return made;
}

typedef struct trained {
    kolo_model *model;
    kolo_data *data;
    setting with;
} trained;

/* buckets: KOLO_NONE, or 0 for those of the setting. */
static trained compiled(int number, int64_t buckets)
{
    kolo_shape shape;
    bool tokens;
    trained t = {.with = setting_of(number)};
    t.model = draw((uint64_t)number, &shape, &tokens);
    t.data = draw_data((uint64_t)number, SAMPLES, shape, tokens);
    kolo_optimizer adam = kolo_adam(.learning_rate = 1e-2, .accumulate_steps = t.with.accumulate);
    rig_ok(kolo_compile(t.model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5, .precision = t.with.precision,
                        .optimizer = kolo_distributed(adam, .bucket_bytes = buckets ? buckets : t.with.bucket_bytes),
                        .strategy = kolo_mirrored(.devices = t.with.devices)));
    return t;
}

static bool fit(trained *t, kolo_callback watcher)
{
    return kolo_fit(t->model, t->data, .batch_size = t->with.batch, .micro_batch = t->with.microbatch, .epochs = 3,
                    .verbose = KOLO_NONE, .callbacks = {watcher}) != NULL;
}

static void release(trained *t)
{
    kolo_model_free(&t->model);
    kolo_data_free(&t->data);
}

/* Only moving statistics are each replica's own. */
static void check_replicas_agree(const kolo_trainer *trainer)
{
    const float *first = kolo_replica_weights(&trainer->replicas[0]);
    for (int i = 1; i < trainer->count; i++) {
        const float *other = kolo_replica_weights(&trainer->replicas[i]);
        for (int p = 0; p < trainer->model->parameter_count; p++) {
            const kolo_span *span = &trainer->replicas[0].spans[p];
            if (span->momentum > 0) continue;
            assert_memory_equal(other + span->offset, first + span->offset, (size_t)span->count * sizeof *first);
        }
    }
}

/* Each captured step is as many graphs as there are buckets. */
static int captured_steps(const kolo_trainer *trainer)
{
    const kolo_engine *engine = trainer->replicas[0].engine;
    int count = 0;
    for (int g = 0; g < KOLO_GRAPHS; g++) {
        const kolo_graph_entry *entry = &engine->graphs[g];
        if (entry->graph_count == 0) continue;
        assert_int_equal(entry->graph_count, entry->key.in_buckets ? kolo_overlap_buckets(trainer) : 1);
        count += entry->key.in_buckets != 0;
    }
    assert_false(engine->eager);
    return count;
}

static uint64_t train(int number, int64_t buckets, int *count, int *captured)
{
    trained t = compiled(number, buckets);
    assert_true(fit(&t, (kolo_callback){0}));
    kolo_timings timings = kolo_get_timings(t.model);
    assert_true(timings.communication == 0 && timings.exposed == 0); /* these are of sums over ranks */
    *count = kolo_overlap_buckets(t.model->trainer);
    *captured = captured_steps(t.model->trainer);
    check_replicas_agree(t.model->trainer);
    uint64_t sum = checksum(t.model);
    release(&t);
    return sum;
}

/* ---------------------------------------------------------------- bits */

static int compare(int number)
{
    int buckets, none, captured, uncaptured;
    uint64_t beside = train(number, 0, &buckets, &captured), after = train(number, KOLO_NONE, &none, &uncaptured);
    if (beside != after) fail_msg("network %d differs", number);
    assert_int_equal(none, 0);
    setenv("KOLO_NVTX", "1", 1); /* nothing is captured */
    uint64_t one_by_one = train(number, 0, &none, &uncaptured);
    unsetenv("KOLO_NVTX");
    if (one_by_one != after) fail_msg("network %d differs where it is not captured", number);
    assert_int_equal(none, buckets);
    assert_int_equal(uncaptured, 0);
    if (buckets > 0) assert_in_range(captured, 1, KOLO_GRAPHS);
    return buckets;
}

static void second_streams_change_no_bit(void **state)
{
    (void)state;
    int buckets = 0;
    for (int n = 0; n < NETWORKS; n++) buckets += compare(n);
    assert_true(buckets >= 2 * NETWORKS);
}

#ifndef KOLO_TESTS_ON_CUDA_H

/* The default cuts a large gradient into at most four buckets, and a small one not at all. */
static void a_quarter_of_the_gradient_is_a_bucket(void **state)
{
    (void)state;
    static const int widths[] = {100, 700}, wanted[] = {0, 3};
    static float features[8][30];
    static int32_t labels[8];
    kolo_data *data = kolo_data_from_arrays(&features[0][0], labels, .samples = 8, .classes = 2, .shape = {30});
    for (int w = 0; w < 2; w++) {
        kolo_model *model = kolo_sequential(kolo_input(30), kolo_dense(widths[w]), kolo_dense(widths[w]),
                                            kolo_dense(widths[w]), kolo_dense(2));
        rig_ok(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY,
                            .strategy = kolo_mirrored(.devices = 2)));
        assert_non_null(kolo_fit(model, data, .batch_size = 4, .verbose = KOLO_NONE));
        int count = kolo_overlap_buckets(model->trainer);
        if (count != wanted[w]) fail_msg("width %d: %d buckets", widths[w], count);
        kolo_model_free(&model);
    }
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- the order of the sums */

/* Stands between the replicas and their group. */
static struct {
    kolo_comm_kind kind;
    const kolo_comm_kind *below;
    kolo_trainer *trainer;
    atomic_int sums[DEVICES]; /* of the step */
    atomic_int early, late; /* first sums of a step: before and after the end of the backward pass */
    atomic_int incomplete; /* sums of buckets that were not complete */
    int failing, at; /* this member's sum number `at` of a step fails; at 0: none */
} watch;

static const kolo_bucket *last_bucket(const kolo_replica *replica)
{
    const kolo_buckets *buckets = replica->engine->buckets;
    return &buckets->buckets[buckets->count - 1];
}

/* The stream has not come to the end of the backward pass, which unpacks the last bucket. */
static bool is_computing(const kolo_replica *replica)
{
    return isnan(replica->arrays.gradient[last_bucket(replica)->first]);
}

static kolo_status watched_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                     kolo_reduce_op reduction)
{
    if (type == KOLO_TYPE_FLOAT) {
        int number = atomic_fetch_add(&watch.sums[comm->rank], 1) + 1;
        const float *floats = values;
        bool complete = true;
        for (int64_t i = 0; i < count; i++) complete = complete && !isnan(floats[i]);
        if (!complete) atomic_fetch_add(&watch.incomplete, 1);
        if (number == 1)
            atomic_fetch_add(is_computing(&watch.trainer->replicas[comm->rank]) ? &watch.early : &watch.late, 1);
        if (watch.at == number && watch.failing == comm->rank) return kolo_fail(KOLO_COMM, "a sum failed");
    }
    return watch.below->allreduce(comm, values, count, type, reduction);
}

/* The streams have nothing left to do, and their gradients become NaN. */
static void begin_watching(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch, (void)logs;
    kolo_trainer *trainer = watch.trainer = self->model->trainer;
    for (int i = 0; i < trainer->count; i++) {
        kolo_replica *replica = &trainer->replicas[i];
        if (replica->group->kind != &watch.kind) {
            watch.below = replica->group->kind;
            watch.kind = *watch.below;
            watch.kind.allreduce = watched_allreduce;
        }
        atomic_store(&watch.sums[i], 0);
        rig_ok(kolo_replica_streams(replica)->synchronize(replica->stream));
        memset(replica->arrays.gradient, 0xff, (size_t)trainer->model->weight_count * sizeof(float));
    }
    for (int i = 0; i < trainer->count; i++) trainer->replicas[i].group->kind = &watch.kind;
}

static const kolo_callback watcher = {.name = "watch", .on_train_batch_begin = begin_watching};

static trained watched(int64_t buckets)
{
    trained t = {.with = {.batch = 24, .microbatch = 3, .devices = 3}};
    memset(&watch, 0, sizeof watch);
    t.data = draw_data(3, SAMPLES, (kolo_shape){3, {6, 5, 2}}, false);
    t.model = kolo_sequential(kolo_input(6, 5, 2), kolo_conv2d(4, .kernel = {3, 3}), kolo_conv2d(5, .kernel = {2, 2}),
                              kolo_flatten(), kolo_dense(20), kolo_dense(classes));
    rig_ok(kolo_compile(t.model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5,
                        .optimizer = kolo_distributed(kolo_sgd(), .bucket_bytes = buckets),
                        .strategy = kolo_mirrored(.devices = 3)));
    return t;
}

/* Of three epochs of three batches, the first is uncaptured, the second captured and the third launched. */
static void sums_begin_before_the_backward_pass_ends(void **state)
{
    (void)state;
    trained t = watched(100);
    assert_true(fit(&t, watcher));
    assert_true(kolo_overlap_buckets(t.model->trainer) >= 3);
    assert_true(captured_steps(t.model->trainer) > 0);
    assert_int_equal(watch.early, 9 * 3);
    assert_int_equal(watch.late, 0);
    assert_int_equal(watch.incomplete, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(watch.sums[i], kolo_overlap_buckets(t.model->trainer));
    release(&t);
}

/* After a failure in the middle of a step, of any member in any of its sums, a training goes on. */
static void a_failed_sum_leaves_nothing_waiting(void **state)
{
    (void)state;
    for (int at = 1; at <= 3; at++) {
        trained t = watched(100);
        assert_true(fit(&t, watcher));
        watch.at = at;
        watch.failing = at - 1;
        assert_false(fit(&t, watcher));
        assert_string_equal(kolo_last_error().text + strlen(kolo_last_error().text) - strlen("a sum failed"),
                            "a sum failed");
        kolo_clear_error();
        watch.at = 0;
        assert_true(fit(&t, watcher));
        assert_true(kolo_overlap_buckets(t.model->trainer) >= 3);
        check_replicas_agree(t.model->trainer);
        release(&t);
    }
}

#endif

int main(void)
{
    setenv("KOLO_CPU_DEVICES", "4", 1);
    setenv("KOLO_SHIM_DEVICES", "4", 0); /* NCCL sums over simulated GPUs */
    alarm(60 * MINUTES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_streams_change_no_bit),
#ifndef KOLO_TESTS_ON_CUDA_H
        cmocka_unit_test(a_quarter_of_the_gradient_is_a_bucket),
        cmocka_unit_test(sums_begin_before_the_backward_pass_ends),
        cmocka_unit_test(a_failed_sum_leaves_nothing_waiting),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
