/* kolo_show_timeline: which steps are shown, what covers what, and what is refused. */
#include "ext/show/display_server.h"

#define HEAD "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
#define TAIL "\n],\"otherData\":{}}\n"
#define ROWS                                                                                                           \
    "{\"ph\":\"M\",\"pid\":1,\"tid\":1000,\"name\":\"process_name\",\"args\":{\"name\":\"rank 0 (one)\"}},\n"          \
    "{\"ph\":\"M\",\"pid\":1,\"tid\":1001,\"name\":\"thread_name\",\"args\":{\"name\":\"device 'q' <0>\"}}"
#define SPAN(ts, dur, category, step)                                                                                  \
    ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":1001,\"ts\":" #ts ",\"dur\":" #dur ",\"cat\":\"" category                      \
    "\",\"name\":\"x\",\"args\":{\"step\":" #step "}}"
/* Two steps of 8 ms, of which the second one has a wait within its backward part. */
#define STEPS                                                                                                          \
    SPAN(0.0, 8000.0, "step", 4)                                                                                       \
    SPAN(0.0, 8000.0, "forward", 4)                                                                                    \
    SPAN(8000.0, 8000.0, "step", 5)                                                                                    \
    SPAN(8000.0, 2000.0, "forward", 5) SPAN(10000.0, 4000.0, "backward", 5) SPAN(11000.0, 1000.0, "wait", 5)

static char text[1 << 18];

static int clear(void **state)
{
    (void)state;
    kolo_clear_error();
    return 0;
}

static void put(const char *contents)
{
    FILE *file = fopen("trace.json", "w");
    assert_non_null(file);
    fputs(contents, file);
    fclose(file);
}

static void load(const char *path)
{
    size_t size = read_whole(path, (unsigned char *)text, sizeof text - 1);
    text[size] = 0;
}

/* What it prints becomes `text`. */
static kolo_status show(const kolo_show_timeline_args *args)
{
    int saved = dup(STDOUT_FILENO), out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    kolo_status status = kolo_show_timeline_at(args, KOLO_HERE);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(out);
    load("out");
    return status;
}
#define SHOW(...) show(&(const kolo_show_timeline_args){._ = #__VA_ARGS__, __VA_ARGS__})

/* The lines have 99 characters, of which the name takes 22 and the frame 2. */
static void the_inner_event_is_shown(void **state)
{
    (void)state;
    char wanted[128] = "rank 0, device 'q' <0>|";
    const int columns = 99 - 22 - 2;
    put(HEAD ROWS STEPS TAIL);
    for (int c = 0; c < columns; c++) {
        double at = 8 * (c + 0.5) / columns;
        strcat(wanted, at < 2 ? "f" : at < 3 ? "b" : at < 4 ? "." : at < 6 ? "b" : "-");
    }
    assert_int_equal(SHOW("trace.json"), KOLO_OK);
    assert_non_null(strstr(text, "Step 5: 8.000 ms\n"));
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "- step  f forward  b backward  . wait  \n"));
}

static void steps_are_chosen(void **state)
{
    (void)state;
    put(HEAD ROWS STEPS TAIL);
    assert_int_equal(SHOW("trace.json", .step = 4), KOLO_OK);
    assert_non_null(strstr(text, "Step 4: 8.000 ms\n"));
    assert_int_equal(SHOW("trace.json", .steps = 9), KOLO_OK);
    assert_non_null(strstr(text, "Steps 4 to 5: 16.000 ms\n"));
    assert_int_equal(SHOW("trace.json", .step = 0), KOLO_NOT_FOUND);
    assert_int_equal(SHOW("trace.json", .step = 6), KOLO_NOT_FOUND);
    put(HEAD ROWS SPAN(3.0, 1000.0, "validation", 0) TAIL);
    assert_int_equal(SHOW("trace.json"), KOLO_OK);
    assert_non_null(strstr(text, "The whole recording: 1.000 ms\n"));
}

/* As the sort indices say, not in the file's order. */
static void devices_come_in_their_order(void **state)
{
    (void)state;
    put(HEAD ROWS ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":1001,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":7}}"
                  ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":1002,\"name\":\"thread_name\",\"args\":{\"name\":\"first\"}}"
                  ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":1002,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":3}}"
                  ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":1002,\"ts\":8000,\"dur\":100.0,\"cat\":\"wait\",\"name\":\"x\","
                  "\"args\":{}}" STEPS TAIL);
    assert_int_equal(SHOW("trace.json"), KOLO_OK);
    const char *first = strstr(text, "rank 0, first"), *other = strstr(text, "rank 0, device");
    assert_true(first && other && first < other);
}

static void pictures_are_files(void **state)
{
    (void)state;
    put(HEAD ROWS STEPS TAIL);
    assert_int_equal(SHOW("trace.json", .file = "t.svg", .width = 700), KOLO_OK);
    load("t.svg");
    assert_non_null(strstr(text, "width=\"700\""));
    assert_non_null(strstr(text, "rank 0, device 'q' &lt;0>"));
    for (const char *const *name = (const char *const[]){"step", "forward", "backward", "wait", NULL}; *name; name++)
        assert_non_null(strstr(text, *name));
    assert_null(strstr(text, "reduce"));
    assert_int_equal(SHOW("trace.json", .file = "t.png"), KOLO_OK);
    load("t.png");
    assert_memory_equal(text, "\x89PNG", 4);
}

static void other_files_are_one_sentence(void **state)
{
    (void)state;
    static const char *const files[] = {"",
                                        "[]",
                                        "{\"traceEvents\":[]}",
                                        HEAD,
                                        HEAD ROWS,
                                        HEAD "{}",
                                        HEAD "]",
                                        HEAD "3\n]}\n",
                                        HEAD ROWS TAIL,
                                        HEAD "{\"ph\":\"X\"}" TAIL,
                                        "\x1f\x8b\x08"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        put(files[i]);
        if (SHOW("trace.json") != KOLO_FORMAT) fail_msg("file %zu", i);
    }
    put(HEAD ",\n" ROWS ",\n{\"ph\":\"X\",\"pid\":9,\"tid\":9,\"ts\":1.0,\"dur\":1.0,\"cat\":\"wait\"}" TAIL);
    assert_int_equal(SHOW("trace.json"), KOLO_FORMAT);
    assert_int_equal(SHOW("no such file"), KOLO_NOT_FOUND);
    assert_int_equal(SHOW(NULL), KOLO_INVALID);
    assert_int_equal(SHOW("trace.json", .file = "t.gif"), KOLO_INVALID);
    assert_int_equal(SHOW("trace.json", .steps = -1), KOLO_INVALID);
    assert_int_equal(SHOW("trace.json", .step = -5), KOLO_INVALID);
    assert_int_equal(SHOW("trace.json", .width = 10), KOLO_INVALID);
}

/* In a notebook it is two pictures and text. */
static void a_notebook_gets_three_forms(void **state)
{
    (void)state;
    put(HEAD ROWS STEPS TAIL);
    assert_int_equal(SHOW("trace.json"), KOLO_OK);
    assert_int_equal(FRAMES, 1);
    const json_t *data = json_object_get(server.frame[0], "data");
    for (const char *const *type = (const char *const[]){"image/svg+xml", "image/png", "text/plain", NULL}; *type;
         type++)
        assert_non_null(json_object_get(data, *type));
}

int main(void)
{
    unsetenv("KOLO_DISPLAY");
#define TEST(test) cmocka_unit_test_setup(test, clear)
    const struct CMUnitTest tests[] = {
        TEST(the_inner_event_is_shown),     TEST(steps_are_chosen),
        TEST(devices_come_in_their_order),  TEST(pictures_are_files),
        TEST(other_files_are_one_sentence), cmocka_unit_test_setup_teardown(a_notebook_gets_three_forms, start, stop),
    };
    return cmocka_run_group_tests_name("show/timeline", tests, enter_folder, leave_folder);
}
