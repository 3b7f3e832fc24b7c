/* Sweeps of the host's streams, their failures, and a fork: see streams.h. */
#include "ext/backend/streams.h"

#include <string.h>
#include <sys/wait.h>

/* ---------------------------------------------------------------- lanes */

typedef struct sweep {
    atomic_int taken[MOST], at_once[LANES], order[MOST], count;
    int fails_at, most;
    atomic_bool overlapped, failed;
} sweep;

/* Numbers behind the one that fails come late, so that the stream can leave them out whichever lane the system runs. */
static void let_it_fail(sweep *s, int64_t number)
{
    if (s->fails_at < 0 || number <= s->fails_at) return;
    while (!atomic_load(&s->failed)) usleep(1000);
    usleep(20000);
}

static kolo_status take_number(void *argument, int lane, int64_t number)
{
    sweep *s = argument;
    let_it_fail(s, number);
    if (lane < 0 || lane >= s->most || atomic_fetch_add(&s->at_once[lane], 1) != 0) s->overlapped = true;
    atomic_fetch_add(&s->taken[number], 1);
    s->order[atomic_fetch_add(&s->count, 1)] = (int)number;
    kolo_status status = number == s->fails_at ? kolo_fail(KOLO_INVALID, "number %d failed", (int)number) : KOLO_OK;
    atomic_fetch_sub(&s->at_once[lane], 1);
    if (status != KOLO_OK) atomic_store(&s->failed, true);
    return status;
}

static void every_number_is_taken_once(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *stream = open_stream(&kinds[k]);
        int lanes = streams->lanes(stream);
        assert_in_range(lanes, 1, LANES);
        for (int backward = 0; backward < 2; backward++) {
            sweep s = {.fails_at = -1, .most = lanes};
            DO(streams->for_each(stream, 5, MOST, backward, take_number, &s));
            DO(streams->for_each(stream, 7, 7, backward, take_number, &s)); /* none */
            DO(streams->synchronize(stream));
            assert_false(s.overlapped);
            assert_int_equal(s.count, MOST - 5);
            for (int i = 0; i < MOST; i++) assert_int_equal(s.taken[i], i >= 5);
            for (int i = 0; i < s.count && lanes == 1; i++)
                assert_int_equal(s.order[i], backward ? MOST - 1 - i : 5 + i);
        }
        streams->close(&stream);
    }
}

/* One lane of the host goes through the numbers in their order, too. */
static void one_lane_keeps_the_order(void **state)
{
    (void)state;
    for (int concurrent = 0; concurrent < 2; concurrent++) {
        kolo_stream *stream = NULL;
        const kolo_stream_place place = {
            .backend = &kolo_reference_backend, .threads = 1, .concurrent = concurrent == 1};
        DO(kolo_host_streams.open(&place, &stream));
        sweep s = {.fails_at = -1, .most = 1};
        DO(kolo_host_streams.for_each(stream, 0, MOST, true, take_number, &s));
        DO(kolo_host_streams.synchronize(stream));
        for (int i = 0; i < MOST; i++) assert_int_equal(s.order[i], MOST - 1 - i);
        kolo_host_streams.close(&stream);
    }
}

/* ---------------------------------------------------------------- failures */

/* The first failure ends the sweep, at once or when the stream reaches it, and the stream reports its sentence. */
static void the_first_failure_ends_it(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *stream = open_stream(&kinds[k]);
        sweep s = {.fails_at = 9, .most = LANES}, next = {.fails_at = -1, .most = LANES};
        kolo_status status = streams->for_each(stream, 0, MOST, false, take_number, &s);
        if (kinds[k].concurrent) {
            assert_int_equal(status, KOLO_OK);
            DO(streams->for_each(stream, 0, MOST, false, take_number, &next)); /* is left out */
            status = streams->synchronize(stream);
        }
        kolo_failure failure = kolo_failure_take();
        assert_int_equal(status, KOLO_INVALID);
        assert_string_equal(failure.text, "number 9 failed");
        assert_true(s.count >= 10 - (LANES - 1) && s.count < MOST && next.count == 0);
        streams->close(&stream);
    }
}

/* A stream that waits for a failed one continues. Only the failed stream reports the failure, once. */
static void a_failure_belongs_to_its_stream(void **state)
{
    (void)state;
    const kind *k = &kinds[1];
    kolo_stream *both[2] = {open_stream(k), open_stream(k)};
    kolo_event *event = NULL;
    atomic_int value = 0;
    sweep s = {.fails_at = 0, .most = LANES};
    DO(k->streams->for_each(both[0], 0, 1, false, take_number, &s));
    DO(k->streams->record_event(both[0], &event));
    DO(k->streams->wait_event(both[1], event));
    DO(k->streams->for_each(both[1], 0, 1, false, increase_slowly, &value));
    DO(k->streams->synchronize(both[1]));
    assert_int_equal(value, 1);
    assert_int_equal(k->streams->synchronize(both[0]), KOLO_INVALID);
    kolo_failure_take();
    DO(k->streams->synchronize(both[0]));
    k->streams->free_event(both[0], event);
    for (int i = 0; i < 2; i++) k->streams->close(&both[i]);
}

/* Work that is still on its way is done, or dropped after a failure, when a stream is closed. */
static void close_waits_for_what_runs(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        kolo_stream *stream = open_stream(&kinds[k]);
        atomic_int value = 0;
        for (int i = 0; i < 4; i++) DO(kinds[k].streams->for_each(stream, 0, 1, false, increase_slowly, &value));
        kinds[k].streams->close(&stream);
        assert_int_equal(value, 4);
        assert_int_equal(kolo_failure_take().code, KOLO_OK);
    }
}

/* ---------------------------------------------------------------- fork */

/* In the child: 0 where everything was as it is to be. */
static int use_in_child(const kind *k, kolo_stream *stream)
{
    sweep s = {.fails_at = -1, .most = LANES};
    alarm(10);
    kolo_status status = k->streams->for_each(stream, 0, MOST, false, take_number, &s);
    if (status == KOLO_OK) status = k->streams->synchronize(stream);
    if (status != KOLO_UNSUPPORTED || s.count != 0) return 1;
    kolo_failure failure = kolo_failure_take();
    if (!strstr(failure.text, "fork")) return 2;
    k->streams->close(&stream);
    return stream ? 3 : 0;
}

static void a_child_cannot_use_it(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const kolo_stream_kind *streams = kinds[k].streams;
        kolo_stream *stream = open_stream(&kinds[k]);
        atomic_int value = 0;
        DO(streams->for_each(stream, 0, 1, false, increase_slowly, &value));
        DO(streams->synchronize(stream));
        pid_t child = fork();
        if (child == 0) _exit(use_in_child(&kinds[k], stream));
        int ended;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(WIFEXITED(ended));
        assert_int_equal(WEXITSTATUS(ended), 0);
        DO(streams->for_each(stream, 0, 1, false, increase_slowly, &value)); /* the parent's goes on */
        DO(streams->synchronize(stream));
        assert_int_equal(value, 2);
        streams->close(&stream);
    }
}

int main(void)
{
    alarm(60 * MINUTES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_taken_once), cmocka_unit_test(one_lane_keeps_the_order),
        cmocka_unit_test(the_first_failure_ends_it),  cmocka_unit_test(a_failure_belongs_to_its_stream),
        cmocka_unit_test(close_waits_for_what_runs),  cmocka_unit_test(a_child_cannot_use_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
