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
    write_file("text", "bad\xff word\n", 10);
    assert_shows(kolo_text("text", .length = 3), "1 samples of shape {3}", "word", NULL);
}

static void pictures_have_labels(void **state)
{
    (void)state;
    assert_shows(kolo_synthetic_images(KOLO_TEST, .samples = 3, .shape = {8, 8, 3}), "the first labels: ", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_named),
        cmocka_unit_test(targets_are_no_labels),
        cmocka_unit_test(texts_are_words),
        cmocka_unit_test(pictures_have_labels),
    };
    return cmocka_run_group_tests_name("show/samples", tests, enter_folder, leave_folder);
}
