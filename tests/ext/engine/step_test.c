/* What a training step gives a stream that captures steps: one launch, and no copy of its numbers, neither of those
 * that go to the device nor of those that come from it. And steps that wait on the stream keep their parameters,
 * whatever the host prepares meanwhile. The stream is the one that enqueues. */
#include "ext/core/small.h"

#include <string.h>
#include <unistd.h>

#include "replica/trainer.h"

#define MINUTES 2
#define BATCH   8
#define STEPS   8 /* of an epoch */
#define SMALL   1024 /* bytes: a copy of less is one of numbers, not of weights or gradients */

/* ---------------------------------------------------------------- a stream that counts */

static struct {
    const kolo_engine *engine;
    int launches, records, small_copies;
    int64_t in_flight; /* the most steps that were enqueued and not read back */
    bool stops; /* the next capture is asked to stop; then this is false */
} seen;

static kolo_status begin_capture(kolo_stream *stream)
{
    if (seen.stops) kolo_request_stop();
    seen.stops = false;
    return kolo_enqueued_streams.begin_capture(stream);
}

static kolo_status launch(kolo_stream *stream, kolo_captured_graph *graph)
{
    int64_t in_flight = seen.engine->enqueued - seen.engine->read_back;
    if (in_flight > seen.in_flight) seen.in_flight = in_flight;
    seen.launches++;
    return kolo_enqueued_streams.launch(stream, graph);
}

static kolo_status copy(kolo_stream *stream, void *to, const void *from, size_t bytes)
{
    seen.small_copies += bytes < SMALL;
    return kolo_enqueued_streams.copy(stream, to, from, bytes);
}

static kolo_status record_event(kolo_stream *stream, kolo_event **event)
{
    seen.records++;
    return kolo_enqueued_streams.record_event(stream, event);
}

static void count(kolo_model *model)
{
    static kolo_stream_kind counting;
    counting = kolo_enqueued_streams;
    counting.begin_capture = begin_capture;
    counting.launch = launch;
    counting.copy = copy;
    counting.record_event = record_event;
    kolo_engine *engine = model->trainer->replicas[0].engine;
    engine->streams = &counting;
    memset(&seen, 0, sizeof seen);
    seen.engine = engine;
}

/* ---------------------------------------------------------------- trainings */

typedef struct training {
    const char *device; /* of some layers; NULL: that of the others */
    double l2;
    kolo_precision precision;
    bool deterministic;
    kolo_strategy strategy;
    int samples; /* 0: those of whole batches */
} training;

static kolo_model *compiled(training t, const char *backend)
{
    kolo_model *model =
        kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                        kolo_conv2d(5, .kernel = {3, 3}, .activation = KOLO_RELU, .l2 = t.l2), kolo_max_pool2d(2, 2),
                        kolo_dropout(0.2, .device = t.device), kolo_flatten(),
                        kolo_dense(12, .activation = KOLO_RELU, .device = t.device), kolo_dense(SMALL_CLASSES));
    kolo_optimizer adam =
        kolo_adam(.learning_rate = 0.02, .schedule = kolo_exponential_decay(.decay_steps = 1, .decay_rate = 0.9));
    assert_int_equal(kolo_compile(model, .optimizer = adam, .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .metrics = {KOLO_ACCURACY}, .strategy = t.strategy, .precision = t.precision,
                                  .deterministic = t.deterministic, .seed = 5, .backend = backend),
                     KOLO_OK);
    return model;
}

static void fit(kolo_model *model, kolo_data *data, int epochs)
{
    assert_non_null(kolo_fit(model, data, .epochs = epochs, .batch_size = BATCH, .verbose = KOLO_NONE));
}

/* ---------------------------------------------------------------- counts */

typedef struct counts {
    int launches, records, small_copies;
} counts;

static counts counts_of_fit(kolo_model *model, kolo_data *data, int epochs)
{
    count(model);
    fit(model, data, epochs);
    assert_ptr_equal(seen.engine, model->trainer->replicas[0].engine);
    return (counts){seen.launches, seen.records, seen.small_copies};
}

/* A fit captures its steps anew, so what a step gives the stream is what a longer fit gives it more than a short one.
 */
static void check_step(training t)
{
    const int epochs[2] = {2, 5}, steps = STEPS * (epochs[1] - epochs[0]);
    bool settles = t.precision == KOLO_MIXED_FP16; /* the loss scale comes to the host once an epoch */
    kolo_data *data = small_data(t.samples ? t.samples : BATCH * STEPS);
    kolo_model *model = compiled(t, "enqueued");
    fit(model, data, 1);
    counts few = counts_of_fit(model, data, epochs[0]), many = counts_of_fit(model, data, epochs[1]);
    assert_int_equal(many.launches - few.launches, steps);
    assert_int_equal(many.records - few.records, steps);
    assert_in_range(many.small_copies - few.small_copies, 0, settles ? epochs[1] - epochs[0] : 0);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void a_step_is_one_launch(void **state)
{
    (void)state;
    check_step((training){.deterministic = false});
    check_step((training){.samples = BATCH * STEPS - 3}); /* with a short batch at the end */
    check_step((training){.deterministic = true, .l2 = 1e-3});
    check_step((training){.precision = KOLO_MIXED_FP16});
    check_step((training){.device = "cpu:1"});
    check_step((training){.strategy = kolo_mirrored(.devices = 1)});
    check_step((training){.strategy = kolo_local_sgd(.workers = 1)});
}

/* ---------------------------------------------------------------- steps in flight */

/* The learning rate, the step and the sample that comes first differ from step to step. */
static void steps_in_flight_keep_their_parameters(void **state)
{
    (void)state;
    kolo_data *data = small_data(BATCH * STEPS);
    kolo_model *wanted = compiled((training){.l2 = 0}, "reference"), *got = compiled((training){.l2 = 0}, "enqueued");
    kolo_model *const both[] = {wanted, got};
    for (int i = 0; i < 2; i++) {
        fit(both[i], data, 1);
        if (both[i] == got) count(got);
        fit(both[i], data, 3);
    }
    assert_int_equal(seen.in_flight, KOLO_STEPS_AHEAD);
    size_t bytes = (size_t)kolo_count_params(wanted) * sizeof(float);
    assert_memory_equal(kolo_weight_get(got, 0).values, kolo_weight_get(wanted, 0).values, bytes);
    for (int i = 0; i < 2; i++) kolo_model_free((kolo_model **)(uintptr_t)&both[i]);
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- a stop */

/* A step that is stopped while it is captured is no reason to enqueue the steps of later fits one operation at a time.
 */
static void a_stop_ends_a_capture(void **state)
{
    (void)state;
    kolo_data *data = small_data(BATCH * STEPS);
    kolo_model *model = compiled((training){.l2 = 0}, "enqueued");
    fit(model, data, 1);
    count(model);
    seen.stops = true;
    fit(model, data, 3);
    assert_false(seen.stops);
    assert_int_equal(seen.launches, 0);
    assert_false(seen.engine->eager);
    fit(model, data, 3);
    assert_true(seen.launches > STEPS);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    alarm(60 * MINUTES);
    setenv("KOLO_CPU_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_one_launch),
        cmocka_unit_test(steps_in_flight_keep_their_parameters),
        cmocka_unit_test(a_stop_ends_a_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
