/* What data shows of itself as a cell's value, for each kind of features, labels and targets. */
#include "ext/data/files.h"
#include "show/bundle.h"

static void assert_shows(kolo_data *data, const char *first, ...)
{
    char *json = kolo_data_bundle(data);
    assert_non_null(json);
    va_list words;
    va_start(words, first);
    for (const char *word = first; word; word = va_arg(words, const char *)) {
        if (!strstr(json, word)) print_error("\"%.600s\" lacks \"%s\"\n", json, word);
        assert_non_null(strstr(json, word));
    }
    va_end(words);
    free(json);
    kolo_data_free(&data);
}

static const float numbers[6] = {0, 1, 2, 3, 4.5f, -6};

static void labels_are_named(void **state)
{
    (void)state;
    static const char *const names[] = {"cat", "it's a dog with a long name", "a\"b"};
    int32_t labels[3] = {0, 1, 2};
    assert_shows(kolo_data_from_arrays(numbers, labels, .samples = 3, .shape = {2}, .classes = 3, .class_names = names),
                 "samples of each: cat: 1, 1: 1, 2: 1", "sample 0 (label cat): 0, 1", "sample 2 (label 2): 4.5, -6",
                 NULL);
    assert_shows(kolo_data_from_arrays(numbers, labels, .samples = 3, .shape = {2}), "sample 1 (label 1): 2, 3", NULL);
}

static void targets_are_no_labels(void **state)
{
    (void)state;
    assert_shows(kolo_data_from_arrays(numbers, .samples = 3, .shape = {1}, .targets = numbers), "targets of shape {1}",
                 NULL);
    assert_shows(kolo_data_from_arrays(numbers, .samples = 3, .shape = {1}), "no labels", "sample 2: 2", NULL);
}

static void texts_are_words(void **state)
{
    (void)state;
    assert_shows(kolo_synthetic_text(KOLO_TEST, .samples = 40, .length = 100), "40 samples of shape {100}",
                 "2000 words", "sample 4: ", NULL);
    int32_t tokens[4] = {3, 4, 0, 0};
    assert_shows(kolo_data_from_arrays(NULL, .tokens = tokens, .samples = 1, .shape = {4}), "sample 0: [3] [4]", NULL);
    write_file("text", "good word\n", 10);
    assert_shows(kolo_text("text", .length = 3), "1 samples of shape {3}", "word", NULL);
}

static void pictures_have_labels(void **state)
{
    (void)state;
    assert_shows(kolo_synthetic_images(KOLO_TEST, .samples = 3, .shape = {8, 8, 3}), "the first labels: ", NULL);
}

/* Width and height stand behind a PNG's eight bytes of signature and the eight of its first chunk's head. */
static void assert_png(const char *path, int width, int height)
{
    unsigned char head[24] = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(head[18] << 8 | head[19], width);
    assert_int_equal(head[22] << 8 | head[23], height);
}

/* 64 / 8 = 8 pixels a pixel, and 4 between two; labels take 18. */
static void pictures_are_written(void **state)
{
    (void)state;
    float pixels[7 * 64] = {0};
    kolo_data *plain = kolo_data_from_arrays(pixels, .samples = 7, .shape = {8, 8});
    assert_int_equal(kolo_plot_samples(plain, .count = 6, .columns = 3, .file = "plain.png"), KOLO_OK);
    assert_png("plain.png", 3 * 68, 2 * 68);
    assert_int_equal(kolo_plot_samples(plain, .first = 5, .file = "last.png"), KOLO_OK);
    assert_png("last.png", 2 * 68, 68);
    int32_t labels[7] = {0, 1, 0, 1, 0, 1, 0};
    kolo_data *labelled = kolo_data_from_arrays(pixels, labels, .samples = 7, .shape = {8, 8, 1});
    assert_int_equal(kolo_plot_samples(labelled, .file = "labelled.png"), KOLO_OK);
    assert_png("labelled.png", 7 * 68, 64 + 18);
    kolo_data_free(&plain);
    kolo_data_free(&labelled);
}

static void assert_refused(kolo_status status, const char *words)
{
    assert_int_equal(status, KOLO_INVALID);
    if (!strstr(kolo_last_error().text, words)) print_error("\"%s\" lacks \"%s\"\n", kolo_last_error().text, words);
    assert_non_null(strstr(kolo_last_error().text, words));
    kolo_clear_error();
}

static void what_cannot_be_shown_is_refused(void **state)
{
    (void)state;
    kolo_data *rows = kolo_data_from_arrays(numbers, .samples = 3, .shape = {2});
    assert_refused(kolo_plot_samples(NULL), "wanted data, got NULL");
    assert_refused(kolo_plot_samples(rows, .first = 3), "wanted one of 3 samples, got 3");
    assert_refused(kolo_plot_samples(rows, .first = -1), "got -1");
    assert_refused(kolo_plot_samples(rows, .count = 1001), "count: wanted 1 to 1000 samples, got 1001");
    assert_refused(kolo_plot_samples(rows, .columns = -1), "columns: wanted 1 to 100, got -1");
    assert_refused(kolo_plot_samples(rows, .file = "rows.jpg"), "ends in .png, got \"rows.jpg\"");
    assert_refused(kolo_plot_samples(rows, .file = "rows.png"), "got samples of shape {2}");
    assert_int_equal(access("rows.png", F_OK), -1);
    kolo_data_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_named),     cmocka_unit_test(targets_are_no_labels),
        cmocka_unit_test(texts_are_words),      cmocka_unit_test(pictures_have_labels),
        cmocka_unit_test(pictures_are_written), cmocka_unit_test(what_cannot_be_shown_is_refused),
    };
    return cmocka_run_group_tests_name("show/samples", tests, enter_folder, leave_folder);
}
