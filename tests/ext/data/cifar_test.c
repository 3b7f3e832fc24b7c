/* CIFAR's binary batches: what is read, from plain and compressed files, and what is refused. */
#include "ext/data/files.h"
#include "data/cifar.h"

#define RECORD 3073

/* Record i: label i modulo `classes`, and byte k of the image is (i + k / 1024 · 50 + k) modulo 251. */
static size_t make_batch(unsigned char *bytes, int records, int labels, int classes)
{
    size_t size = 0;
    for (int i = 0; i < records; i++) {
        for (int k = 0; k < labels; k++) bytes[size++] = (unsigned char)(k + 1 == labels ? i % classes : 0);
        for (int k = 0; k < 3072; k++) bytes[size++] = (unsigned char)((i + k / 1024 * 50 + k) % 251);
    }
    return size;
}

static unsigned char batch[8 * RECORD + 8];

static int empty_folder(void **state)
{
    (void)state;
    kolo_clear_error();
    return system("rm -rf set && mkdir set");
}

static void assert_first_sample(const kolo_data *data)
{
    float pixels[3072];
    int label;
    assert_int_equal(kolo_data_sample(data, 3, pixels, &label), KOLO_OK);
    assert_int_equal(label, 3);
    for (int pixel = 0; pixel < 1024; pixel++)
        for (int channel = 0; channel < 3; channel++) {
            int k = channel * 1024 + pixel;
            assert_float_equal(pixels[3 * pixel + channel], (float)((3 + k / 1024 * 50 + k) % 251) / 255, 1e-7);
        }
}

static void channels_become_last_whatever_compressed_them(void **state)
{
    (void)state;
    static const char names[] = "cat\r\ndog\r\nfour\r\nfive\r\na b\r\n6\r\n7\r\n8\r\n9\r\n10";
    size_t size = make_batch(batch, 4, 1, 10);
    write_file("set/data_batch_1.bin", batch, size);
    write_gzip("set/data_batch_2.bin.gz", batch, size);
    write_xz("set/data_batch_3.bin.xz", batch, size);
    write_xz("set/data_batch_4.bin", batch, size);
    write_file("set/data_batch_5.bin", batch, size);
    write_file("set/batches.meta.txt", names, sizeof names - 1);
    kolo_data *data = kolo_dataset("set", KOLO_TRAIN);
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 20);
    assert_memory_equal(info.shape, ((int[]){32, 32, 3, 0}), sizeof info.shape);
    assert_int_equal(info.classes, 10);
    assert_string_equal(info.class_names[4], "a b");
    assert_string_equal(info.class_names[9], "10");
    assert_string_equal(info.source, "set/data_batch_1.bin");
    for (int first = 0; first < 20; first += 4) {
        kolo_data *part = kolo_data_slice(data, first, 4);
        assert_first_sample(part);
        assert_string_equal(kolo_data_get_info(part).class_names[0], "cat");
        kolo_data_free(&part);
    }
    kolo_data_free(&data);
}

static void a_part_of_the_test_batch_will_do(void **state)
{
    (void)state;
    write_xz("set/test_batch_first1000.bin.xz", batch, make_batch(batch, 5, 1, 10));
    kolo_data *data = kolo_dataset("set", KOLO_TEST);
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 5);
    assert_int_equal(info.classes, 10);
    assert_null(info.class_names);
    kolo_data_free(&data);
    assert_null(kolo_dataset("set", KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "set: wanted files data_batch_1", "got none", NULL);
}

static void a_hundred_classes_have_two_labels(void **state)
{
    (void)state;
    write_file("set/train.bin", batch, make_batch(batch, 6, 2, 100));
    kolo_data *data = kolo_dataset("set", KOLO_TRAIN);
    assert_int_equal(kolo_data_get_info(data).classes, 100);
    assert_first_sample(data);
    kolo_data_free(&data);
}

static void refused(const char *why)
{
    assert_null(kolo_dataset("set", KOLO_TRAIN));
    assert_failure(KOLO_FORMAT, "set/data_batch_", "wanted", why, NULL);
}

static void damaged_batches_are_one_sentence(void **state)
{
    (void)state;
    size_t size = make_batch(batch, 2, 1, 10);
    for (size_t cut = 1; cut < size; cut += cut < 40 || cut > size - 40 ? 1 : 97) {
        if (cut == RECORD) continue;
        write_file("set/data_batch_1.bin", batch, cut);
        refused("whole records of 3073 bytes");
    }
    batch[RECORD] = 10;
    write_file("set/data_batch_1.bin", batch, size);
    refused("record 1: wanted a label of 0 to 9, got 10");
    write_file("set/data_batch_1.bin", "", 0);
    refused("got an empty file");
    batch[RECORD] = 1;
    write_file("set/data_batch_1.bin", batch, size);
    write_file("set/data_batch_3.bin", batch, size - 1); /* read by another thread */
    refused("data_batch_3.bin: wanted whole records");
}

static void damaged_compression_is_one_sentence(void **state)
{
    (void)state;
    static unsigned char packed[1 << 16];
    write_xz("whole", batch, make_batch(batch, 2, 1, 10));
    size_t size = read_whole("whole", packed, sizeof packed);
    for (size_t cut = 6; cut < size; cut++) {
        write_file("set/data_batch_1.bin.xz", packed, cut);
        assert_null(kolo_dataset("set", KOLO_TRAIN));
        assert_failure(KOLO_FORMAT, "data_batch_1.bin.xz: truncated: the xz data stops", NULL);
    }
    for (size_t at = 0; at < size; at++) {
        packed[at] ^= 4;
        write_file("set/data_batch_1.bin.xz", packed, size);
        assert_null(kolo_dataset("set", KOLO_TRAIN)); /* CRC64 over the data, CRC32 over all else */
        assert_failure(KOLO_FORMAT, "data_batch_1.bin.xz", NULL);
        packed[at] ^= 4;
    }
}

/* The published files, where they are at hand. */
static void the_real_images(void **state)
{
    const char *home = *state;
    char path[512];
    snprintf(path, sizeof path, "%s/cifar-10", home ? home : "");
    if (!home || !kolo_cifar_in(path)) skip();
    setenv("KOLO_DATA", home, 1);
    kolo_data *test = kolo_cifar10(KOLO_TEST);
    kolo_data_info info = kolo_data_get_info(test);
    assert_in_range(info.samples, 1000, 10000);
    int label;
    float pixels[3072];
    static const int first[] = {3, 8, 8, 0, 6, 6, 1, 6, 3, 1}; /* cat, ship, ship, airplane, frog, … */
    for (int i = 0; i < 10; i++) {
        assert_int_equal(kolo_data_sample(test, i, pixels, &label), KOLO_OK);
        assert_int_equal(label, first[i]);
    }
    assert_int_equal(kolo_data_sample(test, 0, pixels, NULL), KOLO_OK);
    for (int channel = 0; channel < 3; channel++) /* Keras's x_test[0][0][0] */
        assert_float_equal(pixels[channel] * 255, ((float[]){158, 112, 49})[channel], 1e-4);
    if (info.class_names) assert_string_equal(info.class_names[9], "truck");
    kolo_data_free(&test);
}

static int enter(void **state)
{
    *state = getenv("KOLO_DATA");
    return enter_folder(&(void *){NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(channels_become_last_whatever_compressed_them, empty_folder),
        cmocka_unit_test_setup(a_part_of_the_test_batch_will_do, empty_folder),
        cmocka_unit_test_setup(a_hundred_classes_have_two_labels, empty_folder),
        cmocka_unit_test_setup(damaged_batches_are_one_sentence, empty_folder),
        cmocka_unit_test_setup(damaged_compression_is_one_sentence, empty_folder),
        cmocka_unit_test(the_real_images),
    };
    return cmocka_run_group_tests_name("data/cifar", tests, enter, leave_folder);
}
