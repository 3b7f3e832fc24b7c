/* TFRecord files: TensorFlow's own, what is written, and what is refused. tensorflow_records.py --check reads ours. */
#include "ext/data/files.h"
#include "ext/data/tensorflow_records.h"
#include "core/crc32c.h"

static int clean(void **state)
{
    (void)state;
    kolo_clear_error();
    return system("rm -f *");
}

static float features[4096];
static int label;

static void assert_pictures(const char *path)
{
    kolo_data *data = kolo_tfrecord(path);
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 3);
    assert_memory_equal(info.shape, ((int[]){2, 3, 1, 0}), sizeof info.shape);
    assert_int_equal(info.classes, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kolo_data_sample(data, i, features, &label), KOLO_OK);
        assert_int_equal(label, i % 2);
        for (int k = 0; k < 6; k++) assert_float_equal(features[k], (float)(6 * i + k) / 255, 1e-7);
    }
    kolo_data_free(&data);
}

static void tensorflows_pictures(void **state)
{
    (void)state;
    write_file("pictures", tf_pictures, sizeof tf_pictures);
    write_file("packed", tf_pictures_gzip, sizeof tf_pictures_gzip);
    assert_pictures("pictures");
    assert_pictures("packed");
    kolo_data *data = kolo_tfrecord("pictures", .features = {"image_raw"}, .shape = {6}, .scale = 1, .classes = 7);
    assert_int_equal(kolo_data_get_info(data).rank, 1);
    assert_int_equal(kolo_data_get_info(data).classes, 7);
    assert_int_equal(kolo_data_sample(data, 2, features, NULL), KOLO_OK);
    assert_float_equal(features[5], 17, 0);
    kolo_data_free(&data);
    assert_null(kolo_tfrecord("pictures", .classes = 1));
    assert_failure(KOLO_FORMAT, "record 1: feature \"label\": wanted 0 to 0, got 1", NULL);
    assert_null(kolo_tfrecord("pictures", .classes = -1));
    assert_failure(KOLO_INVALID, "kolo_tfrecord: wanted .classes of at least 1, got -1", NULL);
    kolo_clear_error();
}

static void columns_follow_each_other_by_name(void **state)
{
    (void)state;
    write_file("rows", tf_rows, sizeof tf_rows);
    kolo_data *data = kolo_tfrecord("rows");
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 4);
    assert_int_equal(info.shape[0], 3);
    assert_int_equal(info.labels, 0);
    assert_int_equal(info.target_shape[0], 1);
    assert_int_equal(kolo_data_sample(data, 3, features, NULL), KOLO_OK);
    assert_memory_equal(features, ((float[]){30, 3.5f, -3}), 3 * sizeof(float));
    kolo_data_free(&data);
    data = kolo_tfrecord("rows", .features = {"b", "a"}, .no_label = true, .scale = 2);
    assert_int_equal(kolo_data_sample(data, 1, features, NULL), KOLO_OK);
    assert_memory_equal(features, ((float[]){3, -2, 20}), 3 * sizeof(float));
    assert_int_equal(kolo_data_get_info(data).target_rank, 0);
    kolo_data_free(&data);
}

static void sequences_have_a_label_a_position(void **state)
{
    (void)state;
    write_file("sequences", tf_sequences, sizeof tf_sequences);
    kolo_data *data = kolo_tfrecord("sequences", .tokens = true);
    kolo_data_info info = kolo_data_get_info(data);
    assert_true(info.tokens);
    assert_int_equal(info.labels, 3);
    assert_int_equal(info.classes, 5);
    assert_int_equal(kolo_data_sample(data, 1, features, &label), KOLO_OK);
    assert_memory_equal(features, ((float[]){1, 2, 3}), 3 * sizeof(float));
    assert_int_equal(label, 2);
    kolo_data_free(&data);
}

static void assert_same(const kolo_data *a, const kolo_data *b, int count)
{
    static float other[4096];
    int other_label;
    assert_int_equal(kolo_data_get_info(a).samples, kolo_data_get_info(b).samples);
    for (int i = 0; i < kolo_data_get_info(a).samples; i++) {
        assert_int_equal(kolo_data_sample(a, i, features, &label), KOLO_OK);
        assert_int_equal(kolo_data_sample(b, i, other, &other_label), KOLO_OK);
        assert_memory_equal(features, other, sizeof(float) * (size_t)count);
        assert_int_equal(label, other_label);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    kolo_data *pictures = kolo_synthetic_images(KOLO_TRAIN, .samples = 10, .shape = {5, 4, 3}), *read;
    assert_int_equal(kolo_tfrecord_write(pictures, "one"), KOLO_OK);
    assert_int_equal(kolo_tfrecord_write(pictures, "packed.gz"), KOLO_OK);
    assert_int_equal(kolo_tfrecord_write(pictures, "parts", .shards = 3, .gzip = true, .label = "class"), KOLO_OK);
    read = kolo_tfrecord("one");
    assert_same(pictures, read, 60);
    kolo_data_free(&read);
    read = kolo_tfrecord("packed.gz");
    assert_same(pictures, read, 60);
    kolo_data_free(&read);
    assert_int_equal(access("parts-00002-of-00003", R_OK), 0);
    read = kolo_tfrecord("parts-*", .label = "class");
    assert_same(pictures, read, 60);
    kolo_data_free(&read), kolo_data_free(&pictures);
    kolo_data *table = kolo_synthetic_table(KOLO_TEST, .samples = 7, .regression = true);
    assert_int_equal(kolo_tfrecord_write(table, "table"), KOLO_OK);
    read = kolo_tfrecord("table");
    assert_same(table, read, 28);
    assert_int_equal(kolo_data_get_info(read).target_shape[0], 1);
    kolo_data_free(&read), kolo_data_free(&table);
}

static void every_truncation_is_one_sentence(void **state)
{
    (void)state;
    size_t record = 12 + 4 + (size_t)(tf_pictures[0] | tf_pictures[1] << 8), whole = sizeof tf_pictures;
    for (size_t cut = 1; cut < whole; cut++) {
        write_file("cut", tf_pictures, cut);
        kolo_data *data = kolo_tfrecord("cut");
        assert_int_equal(data != NULL, cut % record == 0); /* between records nobody can know */
        if (!data) assert_failure(KOLO_FORMAT, "kolo_tfrecord: cut: record", "truncated", NULL);
        kolo_data_free(&data);
    }
}

static void every_changed_byte_is_found(void **state)
{
    (void)state;
    static unsigned char bytes[sizeof tf_pictures];
    for (size_t at = 0; at < sizeof bytes; at++) {
        memcpy(bytes, tf_pictures, sizeof bytes);
        bytes[at] ^= 1;
        write_file("changed", bytes, sizeof bytes);
        assert_null(kolo_tfrecord("changed"));
        assert_failure(KOLO_FORMAT, "changed: record", "damaged", NULL);
    }
}

/* A record with right checksums around any bytes. */
static void write_record(const char *path, const void *bytes, size_t size)
{
    unsigned char record[4096] = {0};
    uint32_t crc;
    for (int i = 0; i < 4; i++) record[i] = (unsigned char)(size >> 8 * i);
    crc = kolo_crc32c_masked(record, 8);
    memcpy(record + 8, &crc, 4);
    memcpy(record + 12, bytes, size);
    crc = kolo_crc32c_masked(bytes, size);
    memcpy(record + 12 + size, &crc, 4);
    write_file(path, record, size + 16);
}

static void the_checksum_is_castagnolis(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0};
    assert_int_equal(kolo_crc32c("123456789", 9), 0xe3069283u); /* RFC 3720, B.4 */
    assert_int_equal(kolo_crc32c(zeros, 32), 0x8a9136aau);
}

static void other_records_are_refused(void **state)
{
    (void)state;
    write_record("text", "hello, world", 12);
    assert_null(kolo_tfrecord("text"));
    assert_failure(KOLO_FORMAT, "text: record 0: wanted a tf.train.Example, got 12 other bytes", NULL);
    write_record("nothing", "", 0);
    assert_null(kolo_tfrecord("nothing"));
    assert_failure(KOLO_FORMAT, "nothing: record 0: wanted a feature of bytes, or of numbers, got 0", NULL);
    write_file("jpeg", tf_jpeg, sizeof tf_jpeg);
    assert_null(kolo_tfrecord("jpeg"));
    assert_failure(KOLO_FORMAT, "feature \"image_raw\": wanted raw pixels, got a JPEG picture", NULL);
    write_file("csv", "a,b,c\n1,2,3\n4,5,6\n", 18);
    assert_null(kolo_tfrecord("csv"));
    assert_failure(KOLO_FORMAT, "csv: record 0: not a TFRecord file", NULL);
    assert_null(kolo_tfrecord("no-*"));
    assert_failure(KOLO_NOT_FOUND, "no-*: wanted files that match", "got none", NULL);
    assert_null(kolo_tfrecord(NULL));
    assert_failure(KOLO_INVALID, "got NULL", NULL);
}

static void what_was_asked_for_must_be_there(void **state)
{
    (void)state;
    write_file("pictures", tf_pictures, sizeof tf_pictures);
    write_file("rows", tf_rows, sizeof tf_rows);
    assert_null(kolo_tfrecord("pictures", .features = {"pixels"}));
    assert_failure(KOLO_FORMAT, "record 0: feature \"pixels\": wanted it in every example, got none", NULL);
    assert_null(kolo_tfrecord("pictures", .label = "class"));
    assert_failure(KOLO_FORMAT, "feature \"class\": wanted it in every example", NULL);
    assert_null(kolo_tfrecord("pictures", .label = "image_raw", .features = {"height"}));
    assert_failure(KOLO_FORMAT, "wanted a label of numbers, got bytes", NULL);
    assert_null(kolo_tfrecord("pictures", .shape = {2, 2}));
    assert_failure(KOLO_FORMAT, "wanted the 4 values of {2, 2}, got 6", NULL);
    assert_null(kolo_tfrecord("rows", .tokens = true));
    assert_failure(KOLO_FORMAT, "feature \"b\": wanted whole numbers, for .tokens, got floats", NULL);
    assert_int_equal(system("cat pictures rows >both"), 0);
    assert_null(kolo_tfrecord("both"));
    assert_failure(KOLO_FORMAT, "both: record 3: feature", "wanted", NULL);
}

/* What a view makes of pictures are floats. */
static void pictures_of_floats_keep_their_shape(void **state)
{
    (void)state;
    kolo_data *digits = kolo_synthetic_digits(KOLO_TEST, .samples = 3);
    kolo_data *larger = kolo_augment(digits, .padding = 2, .crop = {30, 29});
    assert_int_equal(kolo_tfrecord_write(larger, "floats"), KOLO_OK);
    kolo_data *read = kolo_tfrecord("floats");
    kolo_data_info info = kolo_data_get_info(read);
    assert_int_equal(info.rank, 3);
    assert_int_equal(info.shape[0], 30);
    assert_int_equal(info.shape[1], 29);
    assert_int_equal(info.shape[2], 1);
    kolo_data_free(&read), kolo_data_free(&larger), kolo_data_free(&digits);
}

static void a_height_without_a_picture_is_a_number(void **state)
{
    (void)state;
    const float heights[] = {1.5f, 1.75f};
    kolo_data *data = kolo_data_from_arrays(heights, NULL, .samples = 2, .shape = {1});
    assert_int_equal(kolo_tfrecord_write(data, "people", .features = "height"), KOLO_OK);
    kolo_data *read = kolo_tfrecord("people");
    assert_non_null(read);
    assert_int_equal(kolo_data_get_info(read).samples, 2);
    kolo_data_free(&read), kolo_data_free(&data);
}

static void writing_fails_in_one_sentence(void **state)
{
    (void)state;
    kolo_data *data = kolo_synthetic_table(KOLO_TEST, .samples = 3);
    assert_int_equal(kolo_tfrecord_write(data, "nowhere/file"), KOLO_NOT_FOUND);
    assert_failure(KOLO_NOT_FOUND, "kolo_tfrecord_write: nowhere/file: wanted a file that can be written", NULL);
    assert_int_equal(kolo_tfrecord_write(data, "file", .shards = 4), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "wanted .shards of 1 to the number of samples", "got 4", NULL);
    assert_int_equal(kolo_tfrecord_write(NULL, "file"), KOLO_INVALID);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(tensorflows_pictures, clean),
        cmocka_unit_test_setup(columns_follow_each_other_by_name, clean),
        cmocka_unit_test_setup(sequences_have_a_label_a_position, clean),
        cmocka_unit_test_setup(what_is_written_is_read, clean),
        cmocka_unit_test_setup(every_truncation_is_one_sentence, clean),
        cmocka_unit_test_setup(every_changed_byte_is_found, clean),
        cmocka_unit_test_setup(the_checksum_is_castagnolis, clean),
        cmocka_unit_test_setup(other_records_are_refused, clean),
        cmocka_unit_test_setup(what_was_asked_for_must_be_there, clean),
        cmocka_unit_test_setup(pictures_of_floats_keep_their_shape, clean),
        cmocka_unit_test_setup(a_height_without_a_picture_is_a_number, clean),
        cmocka_unit_test_setup(writing_fails_in_one_sentence, clean),
    };
    return cmocka_run_group_tests_name("data/tfrecord", tests, enter_folder, leave_folder);
}
