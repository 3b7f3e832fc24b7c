/* Texts as numbers of words: Keras's own numbers, vocabularies used again, characters, and what is refused. */
#include "ext/data/files.h"
#include "ext/data/keras_text.h"

static int write_lines(void **state)
{
    (void)state;
    kolo_clear_error();
    if (system("rm -rf *") != 0) return -1;
    write_file("lines", keras_lines, sizeof keras_lines - 1);
    return 0;
}

static float features[128];

/* Words x₀ … xₙ₋₁ are the features, x₁ … xₙ the labels, of which one call shows the first: the others are the next
 * features. */
static void assert_rows(kolo_data *data, const char *const *words, int classes, const int *rows, int count, int length)
{
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.classes, classes);
    for (int i = 0; i < classes; i++) assert_string_equal(info.class_names[i], words[i]);
    assert_int_equal(info.samples, count);
    assert_int_equal(info.shape[0], length);
    assert_int_equal(info.labels, length);
    assert_true(info.tokens);
    for (int i = 0; i < count; i++) {
        int label;
        assert_int_equal(kolo_data_sample(data, i, features, &label), KOLO_OK);
        for (int k = 0; k < length; k++) assert_float_equal(features[k], (float)rows[i * (length + 1) + k], 0);
        assert_int_equal(label, rows[i * (length + 1) + 1]);
    }
    kolo_data_free(&data);
}

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define ASSERT_KERAS(data, name, length)                                                                               \
    assert_rows(data, keras_##name##_words, COUNT(keras_##name##_words), keras_##name##_rows[0],                       \
                COUNT(keras_##name##_rows), length)

static void kerass_own_numbers(void **state)
{
    (void)state;
    ASSERT_KERAS(kolo_text("lines", .length = 6), plain, 6);
    ASSERT_KERAS(kolo_text("lines", .length = 4, .vocabulary = 8), small, 4);
    ASSERT_KERAS(kolo_text("lines", .length = 6, .punctuation = KOLO_PUNCTUATION_SEPARATE), separate, 6);
    ASSERT_KERAS(kolo_text("lines", .length = 6, .punctuation = KOLO_PUNCTUATION_KEEP, .keep_case = true), kept, 6);
    kolo_data *data = kolo_text("lines");
    assert_int_equal(kolo_data_get_info(data).shape[0], 80);
    kolo_data_free(&data);
}

static void assert_tokens(kolo_data *data, int64_t sample, int count, const float *wanted)
{
    assert_int_equal(kolo_data_sample(data, sample, features, NULL), KOLO_OK);
    assert_memory_equal(features, wanted, sizeof(float) * (size_t)count);
}

static void a_vocabulary_can_be_used_again(void **state)
{
    (void)state;
    write_file("test", "cat zebra the\r\n\r\nZETA", 21);
    kolo_data *train = kolo_text("lines", .length = 3), *test = kolo_text("test", .length = 3, .like = train);
    kolo_data_info info = kolo_data_get_info(test);
    assert_int_equal(info.samples, 2);
    assert_int_equal(info.classes, kolo_data_get_info(train).classes);
    kolo_data_free(&train);
    assert_string_equal(kolo_data_get_info(test).class_names[2], "zeta");
    assert_tokens(test, 0, 3, (float[]){4, 1, 3});
    assert_tokens(test, 1, 3, (float[]){2, 0, 0});
    kolo_data_free(&test);
    kolo_data *digits = kolo_synthetic_digits(KOLO_TEST, .samples = 3);
    assert_null(kolo_text("test", .like = digits));
    assert_failure(KOLO_INVALID, "kolo_text: wanted .like made by kolo_text()", "digits drawn by Kolo", NULL);
    kolo_data_free(&digits);
}

static void a_folder_is_read_in_order(void **state)
{
    (void)state;
    mkdir("folder", 0755), mkdir("folder/inner", 0755);
    write_file("folder/b.txt", "second", 6);
    write_gzip("folder/a.txt.gz",
               "\xef\xbb\xbf"
               "first\n",
               9);
    write_file("folder/.hidden", "never", 5);
    write_file("folder/empty", "", 0);
    kolo_data *data = kolo_text("folder", .length = 1);
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 2);
    assert_tokens(data, 0, 1, (float[]){3}); /* "second" stands before "first": descending */
    assert_tokens(data, 1, 1, (float[]){2});
    kolo_data_free(&data);
    assert_null(kolo_text("folder/inner"));
    assert_failure(KOLO_NOT_FOUND, "folder/inner: wanted texts in this folder, got none", NULL);
}

static void a_continuous_text_is_cut(void **state)
{
    (void)state;
    write_file("alphabet", "a b c\nd e\n\nf g h", 16);
    kolo_data *data = kolo_text("alphabet", .length = 3, .continuous = true); /* h 2, g 3, … a 9 */
    assert_int_equal(kolo_data_get_info(data).samples, 2);
    assert_tokens(data, 0, 3, (float[]){9, 8, 7});
    assert_tokens(data, 1, 3, (float[]){6, 5, 4});
    int label;
    assert_int_equal(kolo_data_sample(data, 1, NULL, &label), KOLO_OK);
    assert_int_equal(label, 5);
    kolo_data_free(&data);
    assert_null(kolo_text("alphabet", .length = 8, .continuous = true));
    assert_failure(KOLO_FORMAT, "alphabet: wanted more than .length words, got 8 words", NULL);
}

/* Latin-1, a character cut in two, the beginning of a safetensors file, UTF-16. */
static void what_is_no_text_in_utf8_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *sentence;
    } files[] = {
        {"one\ncaf\xe9 au lait\n", 18, "other: wanted a text in UTF-8, got byte 0xE9 in line 2, which is none of it"},
        {"caf\xc3", 4, "other: wanted a text in UTF-8, got byte 0xC3 in line 1"},
        {"h\0\0\0\0\0\0\0{\"a\"}", 13, "other: wanted a text in UTF-8, got byte 0x00 in line 1"},
        {"\xff\xfe\x61\0", 4, "other: wanted a text in UTF-8, got UTF-16"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file("other", files[i].bytes, files[i].size);
        assert_null(kolo_text("other", .length = 2));
        assert_failure(KOLO_FORMAT, files[i].sentence, NULL);
        assert_null(kolo_text("other", .length = 2, .characters = true));
        assert_failure(KOLO_FORMAT, files[i].sentence, NULL);
    }
}

static void characters_are_whole(void **state)
{
    (void)state;
    write_file("utf8", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xc3\xa9", 12); /* é € 😀 z é */
    kolo_data *data = kolo_text("utf8", .characters = true, .length = 5);
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.classes, 2 + 4);
    assert_string_equal(info.class_names[2], "\xc3\xa9"); /* twice */
    assert_string_equal(info.class_names[3], "\xf0\x9f\x98\x80");
    assert_tokens(data, 0, 5, (float[]){2, 4, 3, 5, 2});
    kolo_data_free(&data);
    write_file("lines of them", "ab\r\nb\n", 6);
    data = kolo_text("lines of them", .characters = true, .continuous = true, .length = 5);
    assert_int_equal(kolo_data_get_info(data).samples, 1);
    kolo_data_free(&data);
    data = kolo_text("lines of them", .characters = true, .length = 2);
    assert_int_equal(kolo_data_get_info(data).samples, 2);
    assert_int_equal(kolo_data_get_info(data).classes, 4); /* without \r and \n */
    kolo_data_free(&data);
}

static void wrong_use_is_one_sentence(void **state)
{
    (void)state;
    assert_null(kolo_text("missing"));
    assert_failure(KOLO_NOT_FOUND, "kolo_text: missing: wanted a file to read", NULL);
    assert_null(kolo_text(NULL));
    assert_failure(KOLO_INVALID, "wanted the name of a text, got NULL", NULL);
    assert_null(kolo_text("lines", .vocabulary = 2));
    assert_failure(KOLO_INVALID, "wanted .vocabulary of at least 3, got 2", NULL);
    assert_null(kolo_text("lines", .length = -1));
    assert_failure(KOLO_INVALID, "wanted .length of 1 to 1000000, got -1", NULL);
    write_file("blank", " \n\t\n", 4);
    assert_null(kolo_text("blank"));
    assert_failure(KOLO_FORMAT, "blank: wanted lines with words, got 0 words", NULL);
}

/* Any bytes are a text. */
static void any_bytes_are_survived(void **state)
{
    (void)state;
    unsigned char bytes[600];
    uint32_t noise = 1;
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (unsigned char)((noise = noise * 1664525 + 1013904223) >> 24);
            if (round % 2) bytes[i] = (unsigned char)(1 + bytes[i] % 127); /* ASCII, which is read */
        }
        write_file("noise", bytes, 1 + noise % sizeof bytes);
        for (int way = 0; way < 4; way++) {
            kolo_data *data = kolo_text("noise", .characters = way & 1, .continuous = way & 2, .length = 7,
                                        .punctuation = KOLO_PUNCTUATION_SEPARATE);
            kolo_data_free(&data);
            kolo_clear_error();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(kerass_own_numbers, write_lines),
        cmocka_unit_test_setup(a_vocabulary_can_be_used_again, write_lines),
        cmocka_unit_test_setup(a_folder_is_read_in_order, write_lines),
        cmocka_unit_test_setup(a_continuous_text_is_cut, write_lines),
        cmocka_unit_test_setup(characters_are_whole, write_lines),
        cmocka_unit_test_setup(what_is_no_text_in_utf8_is_refused, write_lines),
        cmocka_unit_test_setup(wrong_use_is_one_sentence, write_lines),
        cmocka_unit_test_setup(any_bytes_are_survived, write_lines),
    };
    return cmocka_run_group_tests_name("data/text", tests, enter_folder, leave_folder);
}
