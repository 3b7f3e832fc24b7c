/* Lines, redraws and tags, whatever pieces the bytes come in. */
#include "ext/launch/launch_test.h"

#include "launch/output.h"
#include "launch/say.h"

#include <fcntl.h>

static char shown[1 << 16];

/* A fresh output whose two streams are one file. */
static struct output open_output(enum output_place place, int *file)
{
    struct output output;
    char path[] = "/tmp/kolo_output_test_XXXXXX";
    *file = mkstemp(path);
    assert_true(*file >= 0);
    unlink(path);
    assert_int_equal(output_open(&output, 3, NULL, false), KOLORUN_GO_ON);
    output.place = place;
    output.fd[0] = output.fd[1] = *file;
    return output;
}

static const char *close_output(struct output *output, int file)
{
    while (queue_wants(&output->queue) >= 0) queue_write(&output->queue);
    output_close(output);
    ssize_t length = pread(file, shown, sizeof shown - 1, 0);
    shown[length > 0 ? length : 0] = '\0';
    close(file);
    return shown;
}

static void take(struct output *output, int rank, enum output_stream stream, const char *text)
{
    output_take(output, rank, stream, text, strlen(text));
}

static void lines_of_ranks_do_not_mix(void **state)
{
    (void)state;
    int file;
    struct output output = open_output(OUTPUT_FILE, &file);
    take(&output, 0, OUTPUT_STDOUT, "be");
    take(&output, 1, OUTPUT_STDOUT, "one\ntw");
    take(&output, 0, OUTPUT_STDERR, "oh\n");
    take(&output, 0, OUTPUT_STDOUT, "gin\n\n");
    take(&output, 1, OUTPUT_STDOUT, "o");
    output_end_rank(&output, 1);
    output_end_rank(&output, 0);
    assert_string_equal(close_output(&output, file), "[1,1]<stdout>:one\n[1,0]<stderr>:oh\n[1,0]<stdout>:begin\n[1,0]<"
                                                     "stdout>:\n[1,1]<stdout>:two\n");
}

static void any_pieces_give_the_same(void **state)
{
    (void)state;
    static const char text[] = "first\nsecond\r\nbar 1\rbar 2\r\nlast\rx\r\r\ry\n";
    static const char wanted[] = "[1,2]<stdout>:first\n[1,2]<stdout>:second\n[1,2]<stdout>:bar 1\n[1,2]<stdout>:bar 2\n"
                                 "[1,2]<stdout>:last\n[1,2]<stdout>:x\n[1,2]<stdout>:y\n";
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        int file;
        struct output output = open_output(OUTPUT_FILE, &file);
        for (size_t at = 0; at < sizeof text - 1; at += piece) {
            size_t left = sizeof text - 1 - at;
            output_take(&output, 2, OUTPUT_STDOUT, text + at, left < piece ? left : piece);
        }
        assert_string_equal(close_output(&output, file), wanted);
    }
}

static void a_line_passes_above_the_bar(void **state)
{
    (void)state;
    int file;
    struct output output = open_output(OUTPUT_TERMINAL, &file);
    take(&output, 0, OUTPUT_STDOUT, "1/2\r");
    take(&output, 1, OUTPUT_STDOUT, "hello\n");
    take(&output, 2, OUTPUT_STDOUT, "another bar\r"); /* not shown: rank 0's is */
    take(&output, 0, OUTPUT_STDOUT, "2/2\r\n");
    take(&output, 2, OUTPUT_STDOUT, "done\n");
    assert_string_equal(close_output(&output, file), "[1,0]<stdout>:1/2"
                                                     "\r\033[K[1,1]<stdout>:hello\n[1,0]<stdout>:1/2"
                                                     "\r\033[K[1,0]<stdout>:2/2\n[1,2]<stdout>:done\n");
}

static void a_notebook_gets_no_escapes(void **state)
{
    (void)state;
    int file;
    struct output output = open_output(OUTPUT_NOTEBOOK, &file);
    take(&output, 0, OUTPUT_STDOUT, "\r\xe2\x94\x81\xe2\x94\x81"); /* two characters wide, six bytes */
    output_idle(&output);
    assert_false(output_undrawn(&output));
    take(&output, 0, OUTPUT_STDOUT, "\rend\n");
    assert_string_equal(close_output(&output, file), "[1,0]<stdout>:\xe2\x94\x81\xe2\x94\x81"
                                                     "\r                \r[1,0]<stdout>:\xe2\x94\x81\xe2\x94\x81"
                                                     "\r                \r[1,0]<stdout>:end\n");
}

static void a_prompt_is_shown_in_place(void **state)
{
    (void)state;
    int file;
    struct output output = open_output(OUTPUT_TERMINAL, &file);
    take(&output, 0, OUTPUT_STDOUT, "name? ");
    assert_true(output_undrawn(&output));
    output_idle(&output);
    output_end_rank(&output, 0);
    assert_string_equal(close_output(&output, file), "[1,0]<stdout>:name? \r\033[K[1,0]<stdout>:name? \n");
}

static void the_last_words_are_kept(void **state)
{
    (void)state;
    int file;
    struct output output = open_output(OUTPUT_FILE, &file);
    assert_null(output_last_words(&output, 1, 0));
    take(&output, 1, OUTPUT_STDERR, "1\n2\n\n3\n4\n5\n6\n[node7:123] Signal: Segmentation fault (11)\n");
    take(&output, 1, OUTPUT_STDOUT, "no words\n");
    take(&output, 1, OUTPUT_STDERR, "[7] mine");
    output_end_rank(&output, 1);
    static const char *const wanted[] = {"3", "4", "5", "6", "[7] mine", NULL};
    for (unsigned i = 0; i < 5; i++) assert_string_equal(output_last_words(&output, 1, i), wanted[i]);
    assert_null(output_last_words(&output, 1, 5));
    assert_non_null(strstr(close_output(&output, file), "[1,1]<stderr>:[node7:123] Signal"));
}

static void the_aftermath_is_left_out(void **state)
{
    (void)state;
    int file;
    struct output output = open_output(OUTPUT_FILE, &file);
    output_aftermath(&output, 0);
    take(&output, 0, OUTPUT_STDERR, "[node7:123] PMIX ERROR: ERROR in file x\nmine\n");
    take(&output, 1, OUTPUT_STDERR, "[node7:124] kept\n");
    assert_string_equal(close_output(&output, file), "[1,0]<stderr>:mine\n[1,1]<stderr>:[node7:124] kept\n");
}

static void a_line_without_end_is_cut(void **state)
{
    (void)state;
    int file;
    struct output output = open_output(OUTPUT_FILE, &file);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    memset(text, 'x', 1 << 20);
    for (int i = 0; i < 5; i++) output_take(&output, 0, OUTPUT_STDOUT, text, 1 << 20);
    assert_true(output.queue.waiting > OUTPUT_LONGEST_LINE && output.rank[0].source[0].length <= 1 << 20);
    free(text);
    close_output(&output, file);
}

static void a_full_disk_does_not_lose_the_console(void **state)
{
    (void)state;
    int file;
    struct output output = open_output(OUTPUT_FILE, &file);
    output.rank[0].source[0].file = open("/dev/full", O_WRONLY);
    take(&output, 0, OUTPUT_STDOUT, "kept\nkept too\n");
    assert_string_equal(close_output(&output, file), "[1,0]<stdout>:kept\n[1,0]<stdout>:kept too\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_ranks_do_not_mix),
        cmocka_unit_test(any_pieces_give_the_same),
        cmocka_unit_test(a_line_passes_above_the_bar),
        cmocka_unit_test(a_notebook_gets_no_escapes),
        cmocka_unit_test(a_prompt_is_shown_in_place),
        cmocka_unit_test(the_last_words_are_kept),
        cmocka_unit_test(the_aftermath_is_left_out),
        cmocka_unit_test(a_line_without_end_is_cut),
        cmocka_unit_test(a_full_disk_does_not_lose_the_console),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
