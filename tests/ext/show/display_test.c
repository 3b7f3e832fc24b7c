/* Showing in a notebook: the frames that a server on the socket gets, and what happens when it is absent, deaf, gone
 * or refuses. */
#include "ext/show/display_server.h"
#include "show/display.h"
#include "show/show.h"

#include <sys/wait.h>

/* ------------------------------------------------------------------------------------------ frames */

static void text_is_shown(void **state)
{
    (void)state;
    assert_int_equal(kolo_display("text/plain", "Grüße \"\\\n"), KOLO_OK);
    assert_int_equal(kolo_display("image/svg+xml", "<svg/>"), KOLO_OK);
    assert_int_equal(FRAMES, 2);
    assert_int_equal(CONNECTIONS, 1);
    assert_string_equal(text_of(0, "token"), "secret");
    assert_string_equal(text_of(0, "kind"), "display");
    assert_string_equal(text_of(0, "id"), "");
    assert_true(json_is_false(json_object_get(frame_at(0), "wait")));
    assert_true(json_is_object(json_object_get(frame_at(0), "metadata")));
    assert_string_equal(data_of(0, "text/plain"), "Grüße \"\\\n");
    assert_string_equal(data_of(1, "image/svg+xml"), "<svg/>");
}

static void bytes_are_base64(void **state)
{
    (void)state;
    static const char *const expected[] = {"", "AA==", "AAH/", "AAH+/w=="};
    static const unsigned char bytes[][4] = {{0}, {0}, {0, 1, 255}, {0, 1, 254, 255}};
    static const size_t sizes[] = {0, 1, 3, 4};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(kolo_display_bytes("image/png", bytes[i], sizes[i]), KOLO_OK);
        assert_string_equal(data_of((int)i, "image/png"), expected[i]);
    }
    assert_int_equal(kolo_display_bytes("text/html", "<b>", 3), KOLO_OK);
    assert_string_equal(data_of(4, "text/html"), "<b>");
    assert_int_equal(kolo_display("image/png", "AAH/"), KOLO_OK); /* text that is base64 already */
    assert_string_equal(data_of(5, "image/png"), "AAH/");
}

static void json_is_an_object(void **state)
{
    (void)state;
    assert_int_equal(kolo_display("application/vnd.vegalite.v5+json", "{\"mark\": \"line\"}"), KOLO_OK);
    json_t *spec = json_object_get(json_object_get(frame_at(0), "data"), "application/vnd.vegalite.v5+json");
    assert_string_equal(json_string_value(json_object_get(spec, "mark")), "line");
    assert_int_equal(kolo_display("application/vnd.vegalite.v5+json", "{mark"), KOLO_FORMAT);
    assert_failure(KOLO_FORMAT, "kolo_display: wanted JSON to show as application/vnd.vegalite.v5+json, got:", NULL);
    assert_int_equal(FRAMES, 1);
}

static void updates_and_clears_have_their_kinds(void **state)
{
    (void)state;
    assert_int_equal(kolo_update_display("loss", "text/plain", "0.5"), KOLO_OK);
    assert_int_equal(kolo_clear_output(true), KOLO_OK);
    assert_int_equal(kolo_clear_output(false), KOLO_OK);
    assert_string_equal(text_of(0, "kind"), "update");
    assert_string_equal(text_of(0, "id"), "loss");
    assert_string_equal(text_of(1, "kind"), "clear");
    assert_true(json_is_true(json_object_get(frame_at(1), "wait")));
    assert_true(json_is_false(json_object_get(frame_at(2), "wait")));
}

static void forms_travel_together(void **state)
{
    (void)state;
    const kolo_mime forms[] = {{"image/png", "\1\2\3", 3, false}, {"text/plain", "a chart", 7, false}};
    assert_int_equal(kolo_display_bundle(NULL, forms, 2), KOLO_OK);
    assert_int_equal(FRAMES, 1);
    assert_string_equal(data_of(0, "image/png"), "AQID");
    assert_string_equal(data_of(0, "text/plain"), "a chart");
}

static void wrong_use_is_one_sentence(void **state)
{
    (void)state;
    assert_int_equal(kolo_display("text/plain", "\xff\xfe"), KOLO_FORMAT);
    assert_failure(KOLO_FORMAT, "kolo_display: wanted text in UTF-8 to show as text/plain", NULL);
    static const char *const types[] = {"", "text", "text/", "/plain", "text/pl ain", "tëxt/plain"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        assert_int_equal(kolo_display(types[i], "x"), KOLO_INVALID);
        assert_failure(KOLO_INVALID, "wanted a MIME type", types[i], NULL);
    }
    assert_int_equal(kolo_display(NULL, "x"), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "got \"NULL\"", NULL);
    assert_int_equal(kolo_display("text/plain", NULL), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "got NULL", NULL);
    assert_int_equal(kolo_display_bytes("image/png", NULL, 3), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "kolo_display_bytes: ", "got NULL", NULL);
    assert_int_equal(kolo_update_display("", "text/plain", "x"), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "kolo_update_display: wanted an id", NULL);
    assert_int_equal(kolo_update_display(NULL, "text/plain", "x"), KOLO_INVALID);
    kolo_clear_error();
    assert_int_equal(FRAMES, 0);
}

/* ------------------------------------------------------------------------------------------ connections */

static void a_hung_up_connection_is_made_again(void **state)
{
    (void)state;
    serve_so(0x06, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(kolo_display("text/plain", "again"), KOLO_OK);
        usleep(20000); /* for the server to hang up */
    }
    assert_int_equal(FRAMES, 5);
    assert_int_equal(CONNECTIONS, 5);
}

static void a_forked_child_has_its_own(void **state)
{
    (void)state;
    int status;
    assert_int_equal(kolo_display("text/plain", "parent"), KOLO_OK);
    pid_t child = fork();
    if (child == 0) _exit(kolo_display("text/plain", "child") == KOLO_OK ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(kolo_display("text/plain", "parent"), KOLO_OK);
    assert_int_equal(FRAMES, 3);
    assert_int_equal(CONNECTIONS, 2);
}

static void *show_eight(void *nothing)
{
    for (int i = 0; i < 8; i++)
        if (kolo_display("text/plain", "thread") != KOLO_OK) return "failed";
    return nothing;
}

static void threads_take_turns(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, show_eight, NULL);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(FRAMES, 32);
    for (int i = 0; i < 32; i++) assert_string_equal(data_of(i, "text/plain"), "thread");
}

static void large_frames_go_through(void **state)
{
    (void)state;
    size_t size = 2500000;
    char *text = malloc(size + 1);
    memset(text, 'x', size);
    text[size] = 0;
    assert_int_equal(kolo_display("text/html", text), KOLO_OK);
    assert_int_equal(strlen(data_of(0, "text/html")), size);
    free(text);
}

/* A Jupyter server would drop it without a word to the notebook. */
static void larger_ones_are_refused(void **state)
{
    (void)state;
    size_t size = 5000000;
    char *text = malloc(size + 1);
    memset(text, 'x', size);
    text[size] = 0;
    assert_int_not_equal(kolo_display("text/html", text), KOLO_OK);
    free(text);
}

/* ------------------------------------------------------------------------------------------ without a notebook */

/* What body prints on stdout, run in a child. */
static void printed(void (*body)(void), char *text, size_t room)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
        dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    text[read_whole("out", (unsigned char *)text, room - 1)] = 0;
}

static void show_all(void)
{
    printf("before ");
    if (kolo_display("text/plain", "plain") || kolo_display("text/html", "<b>html</b>") ||
        kolo_display_bytes("image/png", "x", 1) || kolo_update_display("id", "text/plain", "updated\n") ||
        kolo_clear_output(false))
        _exit(1);
}

#define AS_TEXT "before plain\nupdated\n"

static void in_a_terminal_text_is_printed(void **state)
{
    (void)state;
    char text[1024];
    unsetenv("KOLO_DISPLAY");
    printed(show_all, text, sizeof text);
    assert_string_equal(text, AS_TEXT);
    assert_int_equal(read_whole("err", (unsigned char *)text, sizeof text), 0);
}

static void assert_falls_back(int frames)
{
    char text[1024], *second;
    printed(show_all, text, sizeof text);
    assert_string_equal(text, AS_TEXT);
    assert_int_equal(FRAMES, frames);
    text[read_whole("err", (unsigned char *)text, sizeof text - 1)] = 0;
    second = strstr(text, "only its text is printed");
    assert_non_null(second);
    assert_null(strstr(second + 1, "only its text is printed"));
}

static void without_a_server_it_falls_back(void **state)
{
    (void)state;
    setenv("KOLO_DISPLAY", "nowhere", 1);
    assert_falls_back(0);
    char name[200];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    setenv("KOLO_DISPLAY", name, 1); /* longer than a socket's name can be */
    assert_falls_back(0);
}

static void refused_it_falls_back(void **state)
{
    (void)state;
    serve_so(0x15, 0);
    assert_falls_back(5); /* each of the five calls is answered at once */
}

/* It waits for the answer to one frame, not to one for each of the five calls. */
static void without_an_answer_it_falls_back(void **state)
{
    (void)state;
    serve_so(0, 0);
    assert_falls_back(1);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(text_is_shown),
        TEST(bytes_are_base64),
        TEST(json_is_an_object),
        TEST(updates_and_clears_have_their_kinds),
        TEST(forms_travel_together),
        TEST(wrong_use_is_one_sentence),
        TEST(a_hung_up_connection_is_made_again),
        TEST(a_forked_child_has_its_own),
        TEST(threads_take_turns),
        TEST(large_frames_go_through),
        TEST(larger_ones_are_refused),
        TEST(in_a_terminal_text_is_printed),
        TEST(without_a_server_it_falls_back),
        TEST(refused_it_falls_back),
        TEST(without_an_answer_it_falls_back),
    };
    return cmocka_run_group_tests_name("show/display", tests, enter_folder, leave_folder);
}
