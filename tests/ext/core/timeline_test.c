/* The recorder: what a thread has recorded is in the file, as far as a row keeps it, and the trace says what is not. */
#include "core/timeline.h"

#include "ext/data/files.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static kolo_timeline_event events[KOLO_TIMELINE_EVENTS];
static char text[1 << 20];

static void record(const char *name, int64_t number)
{
    kolo_timeline_end_with(kolo_timeline_begin(), KOLO_SPAN_FORWARD, name, number, 12);
}

/* Ends the recording, and makes a trace of the file. Returns its text, as far as there is room. */
static const char *make_trace(kolo_timeline_trace *trace)
{
    FILE *out = tmpfile();
    assert_non_null(out);
    kolo_timeline_halt();
    kolo_timeline_begin_trace(trace, out);
    assert_true(kolo_timeline_add_part(trace, kolo_timeline_descriptor()));
    assert_true(kolo_timeline_end_trace(trace));
    assert_int_equal(fseek(out, 0, SEEK_SET), 0);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    fclose(out);
    kolo_timeline_close();
    return text;
}

static void begin(int rank, int size)
{
    assert_int_equal(kolo_timeline_open("part", rank, size), KOLO_OK);
    kolo_timeline_go();
}

static int count_of(const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) count++;
    return count;
}

static void nothing_is_recorded_without_a_recording(void **state)
{
    (void)state;
    assert_int_equal(kolo_timeline_begin(), 0);
    record("before", 0);
    begin(3, 8);
    int64_t begun = kolo_timeline_begin();
    assert_true(begun > 0);
    kolo_timeline_trace trace;
    make_trace(&trace);
    assert_int_equal(count_of("\"X\""), 0);
    kolo_timeline_end(begun, KOLO_SPAN_FORWARD, "late");
    begin(3, 8);
    record("within", 0);
    make_trace(&trace);
    assert_int_equal(count_of("\"X\""), 1);
    assert_non_null(strstr(text, "\"name\":\"rank 3 ("));
}

static void names_are_json(void **state)
{
    (void)state;
    char longest[200], ended[100];
    memset(longest, 'x', sizeof longest);
    memcpy(longest + 46, "\xc3\xa4", 3); /* its second byte does not fit */
    snprintf(ended, sizeof ended, "\"%.46s\"", longest);
    begin(0, 1);
    record("a \"b\" \\ \n \xff", 7);
    record(longest, -1);
    kolo_timeline_trace trace;
    make_trace(&trace);
    assert_non_null(strstr(text, "\"name\":\"a \\\"b\\\" \\\\ \\u000a "
                                 "\xef\xbf\xbd\",\"args\":{\"microbatch\":7,\"bytes\":12}"));
    assert_non_null(strstr(text, ended));
}

static void *record_in_a_place(void *argument)
{
    kolo_timeline_place before = kolo_timeline_enter("device", *(const int *)argument, 0, 5);
    for (int i = 0; i < 100; i++) record("work", i);
    kolo_timeline_leave(before);
    record("behind", -1);
    return NULL;
}

/* A thread that has ended gives its row to the next one in the same place. */
static void each_place_of_a_thread_is_a_row(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    int number[THREADS] = {0, 1, 2, 3};
    pthread_t thread[THREADS];
    begin(0, 1);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, record_in_a_place, &number[i]);
        for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    }
    kolo_timeline_trace trace;
    make_trace(&trace);
    for (int i = 0; i < THREADS; i++) {
        char name[32];
        snprintf(name, sizeof name, "{\"name\":\"device %d\"}", i);
        assert_int_equal(count_of(name), 1);
    }
    assert_in_range(count_of("{\"name\":\"main\"}"), 1, THREADS);
}

static void a_full_row_keeps_the_newest(void **state)
{
    (void)state;
    const int more = 1000;
    begin(0, 1);
    for (int i = 0; i < KOLO_TIMELINE_EVENTS + more; i++) record("work", i);
    kolo_timeline_halt();
    kolo_timeline_header header;
    assert_true(kolo_timeline_read_header(kolo_timeline_descriptor(), &header));
    assert_int_equal(kolo_timeline_read_row(kolo_timeline_descriptor(), &header, 0, events), KOLO_TIMELINE_EVENTS - 1);
    assert_int_equal(events[0].number, more + 1);
    assert_int_equal(events[KOLO_TIMELINE_EVENTS - 2].number, KOLO_TIMELINE_EVENTS + more - 1);
    kolo_timeline_trace trace;
    make_trace(&trace);
    assert_int_equal(trace.left_out, more + 1);
}

static void a_forked_child_does_not_write_to_the_file(void **state)
{
    (void)state;
    begin(0, 1);
    record("parent", 0);
    pid_t child = fork();
    if (child == 0) {
        record("child", 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    kolo_timeline_trace trace;
    make_trace(&trace);
    assert_int_equal(count_of("\"X\""), 1);
}

/* Threads that record while recordings end and begin: make tsan reads this. */
static atomic_bool ends;
static void *record_on_and_on(void *unused)
{
    (void)unused;
    while (!atomic_load(&ends)) record("work", 0);
    return NULL;
}

static void recordings_may_end_while_threads_record(void **state)
{
    (void)state;
    pthread_t thread[3];
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, record_on_and_on, NULL);
    for (int i = 0; i < 20; i++) {
        begin(0, 1);
        for (int k = 0; k < 100; k++) record("main", k);
        kolo_timeline_halt();
        kolo_timeline_close();
    }
    atomic_store(&ends, true);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    kolo_timeline_header header;
    FILE *file = tmpfile();
    assert_false(kolo_timeline_read_header(fileno(file), &header));
    for (size_t i = 0; i < sizeof header; i++) fputc(0xff, file);
    fflush(file);
    assert_false(kolo_timeline_read_header(fileno(file), &header));
    fclose(file);
    assert_int_not_equal(kolo_timeline_open("/nowhere/part", 0, 1), KOLO_OK);
    kolo_clear_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_recorded_without_a_recording),
        cmocka_unit_test(names_are_json),
        cmocka_unit_test(each_place_of_a_thread_is_a_row),
        cmocka_unit_test(a_full_row_keeps_the_newest),
        cmocka_unit_test(a_forked_child_does_not_write_to_the_file),
        cmocka_unit_test(recordings_may_end_while_threads_record),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests_name("core/timeline", tests, enter_folder, leave_folder);
}
