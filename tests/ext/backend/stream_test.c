/* Order, copies, events and captured graphs of the host's streams: see streams.h. */
#include "ext/backend/streams.h"

#include <math.h>
#include <string.h>

static void *memory_of(const kind *k, kolo_stream *stream, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(k->streams->allocate(stream, bytes, "a test", &memory), KOLO_OK);
    assert_int_equal((uintptr_t)memory % 64, 0);
    return memory;
}

/* ---------------------------------------------------------------- order */

/* Notes who came in which order. */
typedef struct notes {
    int numbers[MOST];
    atomic_int count;
} notes;

typedef struct note {
    notes *to;
    int number;
} note;

static void take_note(void *argument)
{
    const note *n = argument;
    n->to->numbers[atomic_fetch_add(&n->to->count, 1)] = n->number;
}

typedef struct slow_note {
    const kolo_stream_kind *streams;
    kolo_stream *stream;
    note *note;
} slow_note;

static kolo_status note_slowly(void *argument, int lane, int64_t number)
{
    (void)lane, (void)number;
    slow_note *n = argument;
    pause_a_moment();
    return n->streams->call(n->stream, take_note, n->note);
}

/* Calls and sweeps of one stream, in the order in which they were given. */
static void work_keeps_its_order(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *stream = open_stream(&kinds[k]);
        notes seen = {.count = 0};
        note all[12];
        slow_note slow[12];
        for (int i = 0; i < 12; i++) {
            all[i] = (note){&seen, i};
            slow[i] = (slow_note){streams, stream, &all[i]};
            if (i % 3 == 0) DO(streams->call(stream, take_note, &all[i]));
            else DO(streams->for_each(stream, 0, 1, false, note_slowly, &slow[i]));
        }
        DO(streams->synchronize(stream));
        assert_int_equal(seen.count, 12);
        for (int i = 0; i < 12; i++) assert_int_equal(seen.numbers[i], i);
        streams->close(&stream);
        assert_null(stream);
        streams->close(&stream);
    }
}

/* Arrays: what comes after a change reads what it left. */
static void arrays_are_changed_in_order(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *stream = open_stream(&kinds[k]);
        const float given[4] = {1, 2, 3, 4};
        float got[4];
        double sums[2] = {0, 0}, parts[4] = {1, 2, 30, 40};
        bool finite = true;
        float *a = memory_of(&kinds[k], stream, sizeof given), *b = memory_of(&kinds[k], stream, sizeof given);
        double *of = memory_of(&kinds[k], stream, sizeof parts), *to = memory_of(&kinds[k], stream, sizeof sums);
        DO(streams->copy(stream, a, given, sizeof given));
        DO(streams->clear(stream, b, sizeof given));
        for (int i = 0; i < 3; i++) DO(streams->add(stream, b, a, 4)); /* 3, 6, 9, 12 */
        DO(streams->copy(stream, got, b, sizeof got));
        DO(streams->clear(stream, b, 2 * sizeof *b));
        DO(streams->copy(stream, of, parts, sizeof parts));
        DO(streams->sum(stream, to, of, 2 * sizeof *of, 2, 2));
        DO(streams->copy(stream, sums, to, sizeof sums));
        DO(streams->are_finite(stream, b, 4, &finite));
        assert_true(finite);
        DO(streams->copy(stream, b, &(float){NAN}, sizeof *b)); /* the temporary lives until the block ends */
        DO(streams->are_finite(stream, b, 4, &finite));
        assert_false(finite);
        for (int i = 0; i < 4; i++) assert_true(got[i] == 3 * given[i]);
        assert_true(sums[0] == 31 && sums[1] == 42);
        DO(streams->copy(stream, a, NULL, 0));
        void *const memory[] = {a, b, of, to, NULL};
        for (int i = 0; i < 5; i++) streams->release(stream, memory[i]);
        streams->close(&stream);
    }
}

typedef struct slow_write {
    const kolo_stream_kind *streams;
    kolo_stream *stream;
    float *to;
} slow_write;

static void write_two(void *argument)
{
    const slow_write *w = argument;
    *w->to = 2;
}

static kolo_status write_slowly(void *argument, int lane, int64_t number)
{
    (void)lane, (void)number;
    slow_write *w = argument;
    pause_a_moment();
    return w->streams->call(w->stream, write_two, w);
}

/* The update's calls wait for the sweeps before them, too. */
static void penalties_are_of_what_was_written_before(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        const kolo_update_kind *updates = streams == &kolo_host_streams ? &kolo_host_updates : &kolo_enqueued_updates;
        kolo_stream *stream = open_stream(&kinds[k]);
        float *weight = memory_of(&kinds[k], stream, sizeof *weight);
        double *penalty = memory_of(&kinds[k], stream, sizeof *penalty), got = 0;
        const kolo_span span = {.count = 1, .l2 = 1, .penalty = 0.5};
        slow_write w = {streams, stream, weight};
        kolo_update_job job = {.spans = &span, .span_count = 1, .count = 1, .weights = weight, .parts = 1};
        DO(streams->clear(stream, weight, sizeof *weight));
        DO(updates->expect(stream, &job));
        DO(streams->for_each(stream, 0, 1, false, write_slowly, &w));
        DO(updates->penalty(stream, &job, penalty));
        DO(streams->copy(stream, &got, penalty, sizeof got));
        DO(streams->synchronize(stream));
        assert_true(got == 2);
        updates->forget(stream, &job);
        streams->release(stream, weight);
        streams->release(stream, penalty);
        streams->close(&stream);
    }
}

/* ---------------------------------------------------------------- copies */

/* After the host has waited a source may change. Before that it may not, and the stream that enqueues shows whoever
 * does it: that stream copies late. */
static void sources_may_change_when_the_stream_has_come_so_far(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *stream = open_stream(&kinds[k]);
        int *there = memory_of(&kinds[k], stream, sizeof *there), source = 1, got = 0;
        kolo_event *copied = NULL;
        DO(streams->copy(stream, there, &source, sizeof source));
        DO(streams->record_event(stream, &copied));
        DO(streams->synchronize_event(stream, copied));
        source = 2;
        DO(streams->copy(stream, &got, there, sizeof got));
        DO(streams->synchronize(stream));
        assert_int_equal(got, 1);
        DO(streams->copy(stream, there, &source, sizeof source));
        source = 3;
        DO(streams->copy(stream, &got, there, sizeof got));
        assert_int_equal(got, kinds[k].late ? 1 : 2);
        DO(streams->synchronize(stream));
        assert_int_equal(got, kinds[k].late ? 3 : 2);
        streams->free_event(stream, copied);
        streams->release(stream, there);
        streams->close(&stream);
    }
}

static void imported_memory_is_the_hosts_or_a_copy(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *stream = open_stream(&kinds[k]);
        float host[2] = {1, 2}, got[2];
        void *placed = NULL, *before;
        for (int i = 0; i < 3; i++) {
            host[0] = (float)i;
            before = placed;
            DO(streams->import(stream, host, sizeof host, "a test", &placed));
            assert_true(i == 0 || placed == before);
            DO(streams->copy(stream, got, placed, sizeof got));
            DO(streams->synchronize(stream));
            assert_memory_equal(got, host, sizeof host);
        }
        assert_true((placed == host) == !kinds[k].late);
        streams->discard(stream, host, placed);
        streams->discard(stream, host, NULL);
        streams->close(&stream);
    }
}

/* Memory that nobody has written is no number on the stream that enqueues. */
static void memory_begins_as_no_number(void **state)
{
    (void)state;
    const kind *k = &kinds[2];
    kolo_stream *stream = open_stream(k);
    float *floats = memory_of(k, stream, 8 * sizeof *floats);
    double *doubles = memory_of(k, stream, 8 * sizeof *doubles);
    for (int i = 0; i < 8; i++) assert_true(isnan(floats[i]) && isnan(doubles[i]));
    k->streams->release(stream, floats);
    k->streams->release(stream, doubles);
    k->streams->close(&stream);
}

/* ---------------------------------------------------------------- events */

/* Two streams take turns at one number; each waits for the other's event, which is recorded again and again. */
static void streams_wait_for_one_another(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *both[2] = {open_stream(&kinds[k]), open_stream(&kinds[k])};
        kolo_event *events[2] = {NULL, NULL};
        atomic_int value = 0;
        for (int i = 0; i < 20; i++) {
            int now = i % 2;
            if (i > 0) DO(streams->wait_event(both[now], events[!now]));
            DO(streams->for_each(both[now], 0, 1, false, increase_slowly, &value));
            DO(streams->record_event(both[now], &events[now]));
            DO(streams->wait_event(both[now], events[now])); /* its own is past for it */
        }
        DO(streams->synchronize_event(both[0], events[1]));
        assert_int_equal(value, 20);
        DO(streams->wait_event(both[0], events[1])); /* one that is past */
        for (int i = 0; i < 2; i++) {
            DO(streams->synchronize(both[i]));
            streams->free_event(both[i], events[i]);
            streams->free_event(both[i], NULL);
        }
        for (int i = 0; i < 2; i++) streams->close(&both[i]);
    }
}

/* An event stands for what was enqueued before it was recorded, and for nothing that came later. */
static void events_stand_for_what_was_before(void **state)
{
    (void)state;
    const kind *k = &kinds[2];
    kolo_stream *stream = open_stream(k);
    atomic_int first = 0, second = 0;
    kolo_event *event = NULL;
    DO(k->streams->for_each(stream, 0, 1, false, increase_slowly, &first)); /* a body runs at once, its work late */
    notes seen = {.count = 0};
    note one = {&seen, 1}, two = {&seen, 2};
    DO(k->streams->call(stream, take_note, &one));
    DO(k->streams->record_event(stream, &event));
    DO(k->streams->call(stream, take_note, &two));
    assert_int_equal(seen.count, 0);
    DO(k->streams->synchronize_event(stream, event));
    assert_int_equal(seen.count, 1);
    DO(k->streams->synchronize(stream));
    assert_int_equal(seen.count, 2);
    assert_true(first == 1 && second == 0);
    k->streams->free_event(stream, event);
    k->streams->close(&stream);
}

/* ---------------------------------------------------------------- captured graphs */

#define SAMPLES 12

/* A graph gathers and adds; what it is launched with are the samples that its step parameters name. */
static void graphs_read_the_step_parameters_of_the_moment(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        if (!streams->begin_capture) continue;
        kolo_stream *stream = open_stream(&kinds[k]);
        float numbers[SAMPLES], got[2];
        for (int i = 0; i < SAMPLES; i++) numbers[i] = (float)(i + 1);
        float *features = memory_of(&kinds[k], stream, 2 * sizeof *features),
              *sum = memory_of(&kinds[k], stream, 2 * sizeof *sum);
        kolo_step_parameters *there = memory_of(&kinds[k], stream, sizeof *there), told[4];
        void *placed = NULL;
        kolo_captured_graph *graph = NULL;
        DO(streams->import(stream, numbers, sizeof numbers, "a test", &placed));
        DO(streams->clear(stream, sum, 2 * sizeof *sum));
        const kolo_sources from = {.floats = placed, .elements = 1, .scale = 1};
        const kolo_gathered to = {.features = features, .outputs = 1};
        DO(streams->begin_capture(stream));
        DO(streams->gather(stream, &from, there, 0, 2, &to));
        DO(streams->add(stream, sum, features, 2));
        DO(streams->end_capture(stream, &graph));
        DO(streams->copy(stream, got, sum, sizeof got));
        DO(streams->synchronize(stream));
        assert_true(got[0] == 0 && got[1] == 0); /* what was captured has not run */
        float wanted[2] = {0, 0};
        for (int i = 0; i < 4; i++) { /* the last batch has but one sample */
            told[i] = (kolo_step_parameters){.first = 3 * i, .samples = i < 3 ? 2 : 1};
            DO(streams->copy(stream, there, &told[i], sizeof told[i]));
            DO(streams->launch(stream, graph));
            wanted[0] += numbers[3 * i];
            if (i < 3) wanted[1] += numbers[3 * i + 1];
        }
        DO(streams->copy(stream, got, sum, sizeof got));
        streams->free_graph(stream, graph); /* its launches are done all the same */
        streams->free_graph(stream, NULL);
        DO(streams->synchronize(stream));
        assert_memory_equal(got, wanted, sizeof got);
        void *const memory[] = {features, sum, there};
        for (int i = 0; i < 3; i++) streams->release(stream, memory[i]);
        streams->discard(stream, numbers, placed);
        streams->close(&stream);
    }
}

/* Each launch of a graph takes the numbers of the ring's next slot, and copies one of them to that slot of another
 * ring. A stream without graphs does this work when it is enqueued. */
static void graphs_take_from_a_ring_and_copy_to_one(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *stream = open_stream(&kinds[k]);
        kolo_step_parameters *there = memory_of(&kinds[k], stream, sizeof *there), *ring = NULL;
        int64_t *results = NULL, before = -1;
        kolo_captured_graph *graph = NULL;
        DO(streams->allocate_host(stream, KOLO_STEPS_AHEAD * sizeof *ring, (void **)&ring));
        DO(streams->allocate_host(stream, 2 * KOLO_STEPS_AHEAD * sizeof *results, (void **)&results));
        DO(streams->copy(stream, &there->slot, &before, sizeof before));
        for (int64_t i = 0; i < 3 * KOLO_STEPS_AHEAD; i++) {
            ring[i % KOLO_STEPS_AHEAD] = (kolo_step_parameters){.slot = i % KOLO_STEPS_AHEAD, .samples = 100 + i};
            bool captures = streams->begin_capture && !graph;
            if (captures) DO(streams->begin_capture(stream));
            if (captures || !graph) {
                DO(streams->take_step_parameters(stream, there, ring, NULL, NULL));
                DO(streams->copy_to_ring(stream, results, 2 * sizeof *results, there, &there->samples,
                                         sizeof *results));
            }
            if (captures) DO(streams->end_capture(stream, &graph));
            if (graph) DO(streams->launch(stream, graph));
            if ((i + 1) % KOLO_STEPS_AHEAD != 0) continue;
            DO(streams->synchronize(stream));
            for (int64_t n = 0; n < KOLO_STEPS_AHEAD; n++)
                assert_int_equal(results[2 * n], 100 + i + 1 - KOLO_STEPS_AHEAD + n);
        }
        if (graph) streams->free_graph(stream, graph);
        streams->release_host(stream, ring);
        streams->release_host(stream, results);
        streams->release(stream, there);
        streams->close(&stream);
    }
}

/* A second stream takes part in the capture from the event that it waits for to the one that it is waited for by. */
static void graphs_take_in_streams_that_wait(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        if (!streams->begin_capture) continue;
        kolo_stream *both[2] = {open_stream(&kinds[k]), open_stream(&kinds[k])};
        kolo_event *events[2] = {NULL, NULL};
        kolo_captured_graph *graph = NULL;
        float *a = memory_of(&kinds[k], both[0], sizeof *a), *b = memory_of(&kinds[k], both[1], sizeof *b), got = 0;
        DO(streams->copy(both[0], a, &(float){1}, sizeof *a));
        DO(streams->synchronize(both[0]));
        DO(streams->begin_capture(both[0]));
        DO(streams->add(both[0], a, a, 1));
        DO(streams->record_event(both[0], &events[0]));
        DO(streams->wait_event(both[1], events[0]));
        DO(streams->copy(both[1], b, a, sizeof *a));
        DO(streams->record_event(both[1], &events[1]));
        DO(streams->wait_event(both[0], events[1]));
        DO(streams->add(both[0], a, b, 1));
        DO(streams->end_capture(both[0], &graph));
        for (int i = 0; i < 3; i++) DO(streams->launch(both[0], graph)); /* four times as much each time */
        DO(streams->copy(both[0], &got, a, sizeof got));
        DO(streams->synchronize(both[0]));
        assert_true(got == 64);
        notes seen = {.count = 0};
        note one = {&seen, 1};
        DO(streams->call(both[1], take_note, &one)); /* the second stream works for itself again */
        DO(streams->synchronize(both[1]));
        assert_int_equal(seen.count, 1);
        streams->free_graph(both[0], graph);
        streams->release(both[0], a);
        streams->release(both[1], b);
        for (int i = 0; i < 2; i++) streams->free_event(both[i], events[i]);
        for (int i = 0; i < 2; i++) streams->close(&both[i]);
    }
}

static void pause_there(void *argument)
{
    (void)argument;
    pause_a_moment();
}

/* The time that a stream takes between two events is at least that of the work between them. An event that is recorded
 * again forgets its first time, and one that is freed early is not written to. */
static void events_note_their_time(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        assert_true((streams->record_time != NULL) == kinds[k].late && (streams->elapsed != NULL) == kinds[k].late);
        if (!kinds[k].late) continue;
        kolo_stream *one = open_stream(&kinds[k]), *other = open_stream(&kinds[k]);
        kolo_event *first = NULL, *last = NULL, *unread = NULL;
        double seconds = -1;
        for (int again = 0; again < 2; again++) {
            DO(streams->record_time(one, &first));
            DO(streams->call(one, pause_there, NULL));
            DO(streams->record_time(one, &last));
            DO(streams->record_time(one, &unread));
        }
        DO(streams->wait_event(other, last));
        DO(streams->record_time(other, &last));
        DO(streams->elapsed(other, first, last, &seconds));
        assert_true(seconds >= 0.002 && seconds < 60);
        streams->free_event(one, unread);
        DO(streams->synchronize(one));
        streams->free_event(other, last);
        streams->free_event(one, first);
        streams->close(&other);
        streams->close(&one);
    }
}

int main(void)
{
    alarm(60 * MINUTES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_keeps_its_order),
        cmocka_unit_test(arrays_are_changed_in_order),
        cmocka_unit_test(penalties_are_of_what_was_written_before),
        cmocka_unit_test(sources_may_change_when_the_stream_has_come_so_far),
        cmocka_unit_test(imported_memory_is_the_hosts_or_a_copy),
        cmocka_unit_test(memory_begins_as_no_number),
        cmocka_unit_test(streams_wait_for_one_another),
        cmocka_unit_test(events_stand_for_what_was_before),
        cmocka_unit_test(events_note_their_time),
        cmocka_unit_test(graphs_read_the_step_parameters_of_the_moment),
        cmocka_unit_test(graphs_take_from_a_ring_and_copy_to_one),
        cmocka_unit_test(graphs_take_in_streams_that_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
