/* IDX files: what is read, and one sentence for each way in which a file can be wrong. */
#include "ext/data/files.h"

#include <sys/resource.h>
#include <sys/wait.h>

static unsigned char images[4096], labels[256];
static size_t images_size, labels_size;

/* 5 images of 3×4, bytes 0 … 59; labels 0, 1, 2, 0, 1. */
static int write_pair(void **state)
{
    (void)state;
    images_size = make_idx(images, 3, (uint32_t[]){5, 3, 4}, 256);
    labels_size = make_idx(labels, 1, (uint32_t[]){5}, 3);
    write_file("images", images, images_size);
    write_file("labels", labels, labels_size);
    kolo_clear_error();
    return 0;
}

static void assert_pair(const char *image_file, const char *label_file)
{
    kolo_data *data = kolo_idx(image_file, label_file);
    assert_non_null(data);
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 5);
    assert_int_equal(info.rank, 3);
    assert_memory_equal(info.shape, ((int[]){3, 4, 1, 0}), sizeof info.shape);
    assert_int_equal(info.classes, 3);
    assert_false(info.synthetic);
    assert_string_equal(info.source, image_file);
    for (int i = 0; i < 5; i++) {
        float pixels[12];
        int label;
        assert_int_equal(kolo_data_sample(data, i, pixels, &label), KOLO_OK);
        assert_int_equal(label, i % 3);
        for (int k = 0; k < 12; k++) assert_float_equal(pixels[k], (float)(i * 12 + k) / 255, 1e-7); /* one rounding */
    }
    kolo_data_free(&data);
    assert_null(data);
}

static void plain_and_compressed_are_told_by_content(void **state)
{
    (void)state;
    write_gzip("images-in-gzip", images, images_size);
    write_gzip("labels-in-gzip", labels, labels_size);
    write_file("plain-but-named.gz", images, images_size);
    assert_pair("images", "labels");
    assert_pair("images-in-gzip", "labels-in-gzip");
    assert_pair("plain-but-named.gz", "labels-in-gzip");
}

static void a_gzip_file_may_have_members(void **state)
{
    (void)state;
    gzFile file = gzopen("members", "wb");
    gzwrite(file, images, 20);
    gzclose(file);
    file = gzopen("members", "ab");
    gzwrite(file, images + 20, (unsigned)images_size - 20);
    gzclose(file);
    assert_pair("members", "labels");
}

static void colours_are_a_fourth_dimension(void **state)
{
    (void)state;
    write_file("colour", images, make_idx(images, 4, (uint32_t[]){5, 2, 3, 3}, 256));
    kolo_data *data = kolo_idx("colour", "labels");
    kolo_data_info info = kolo_data_get_info(data);
    assert_memory_equal(info.shape, ((int[]){2, 3, 3, 0}), sizeof info.shape);
    kolo_data_free(&data);
}

static void expect(const char *what, kolo_status code, const char *word_1, const char *word_2)
{
    assert_null(kolo_idx(what, "labels"));
    assert_failure(code, "idx_test.c:", "kolo_idx: ", what, word_1, word_2, NULL);
}

static void every_truncation_is_one_sentence(void **state)
{
    (void)state;
    unsigned char packed[4096];
    write_gzip("whole.gz", images, images_size);
    size_t packed_size = read_whole("whole.gz", packed, sizeof packed);
    for (size_t cut = 1; cut < images_size; cut++) {
        write_file("cut", images, cut);
        expect("cut", KOLO_FORMAT, "wanted", "got");
    }
    for (size_t cut = 1; cut < packed_size; cut++) {
        write_file("cut.gz", packed, cut);
        assert_null(kolo_idx("cut.gz", "labels"));
        assert_failure(KOLO_FORMAT, "cut.gz", NULL);
    }
}

/* Whatever a byte is changed to, the answer is data or a sentence; run under a sanitizer this is the proof. */
static void every_changed_byte_is_survived(void **state)
{
    (void)state;
    unsigned char packed[4096];
    write_gzip("whole.gz", images, images_size);
    size_t packed_size = read_whole("whole.gz", packed, sizeof packed);
    int refused = 0;
    for (size_t at = 0; at < packed_size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            packed[at] ^= (unsigned char)(1 << bit);
            write_file("changed.gz", packed, packed_size);
            kolo_data *data = kolo_idx("changed.gz", "labels");
            refused += data == NULL;
            kolo_data_free(&data);
            kolo_clear_error();
            packed[at] ^= (unsigned char)(1 << bit);
        }
    }
    assert_true(refused > 8 * ((int)packed_size - 12)); /* all but flags, time and system of gzip's own header */
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    write_file("empty", "", 0);
    expect("empty", KOLO_FORMAT, "wanted an IDX file", "got an empty file");
    write_file("text", "hello, world", 12);
    expect("text", KOLO_FORMAT, "magic number 0x00000803", "got 0x68656c6c");
    images[2] = 0x0d;
    write_file("floats", images, images_size);
    expect("floats", KOLO_FORMAT, "unsigned bytes", "got 32-bit floats (0x0d)");
    expect("labels", KOLO_FORMAT, "wanted images", "got an array of 1 dimensions");
    mkdir("folder", 0755);
    expect("folder", KOLO_FORMAT, "wanted a file", "got a folder");
    expect("missing", KOLO_NOT_FOUND, "wanted a file", "No such file");
    assert_int_equal(mkfifo("pipe", 0644), 0);
    expect("pipe", KOLO_FORMAT, "wanted a file", "pipe");
    assert_null(kolo_idx(NULL, "labels"));
    assert_failure(KOLO_INVALID, "wanted", "got NULL", NULL);
}

static void nothing_may_follow(void **state)
{
    (void)state;
    images[images_size] = 7;
    write_file("longer", images, images_size + 1);
    expect("longer", KOLO_FORMAT, "wanted 76 bytes", "got 77");
    write_gzip("longer.gz", images, images_size + 1);
    expect("longer.gz", KOLO_FORMAT, "wanted 60 bytes of data", "got more");
    write_gzip("followed.gz", images, images_size);
    FILE *file = fopen("followed.gz", "ab");
    fputs("x", file);
    fclose(file);
    expect("followed.gz", KOLO_FORMAT, "nothing after the gzip data", "got more");
}

static void header(const char *path, bool gzip, uint32_t samples, uint32_t rows, uint32_t columns)
{
    unsigned char bytes[16] = {0, 0, 8, 3};
    uint32_t dim[3] = {samples, rows, columns};
    for (int i = 0; i < 12; i++) bytes[4 + i] = (unsigned char)(dim[i / 4] >> (24 - 8 * (i % 4)));
    (gzip ? write_gzip : write_file)(path, bytes, sizeof bytes);
}

static void absurd_headers_allocate_nothing(void **state)
{
    (void)state;
    header("none", false, 0, 28, 28);
    expect("none", KOLO_FORMAT, "at least one sample", "got none");
    header("flat", false, 5, 0, 28);
    expect("flat", KOLO_FORMAT, "at least one pixel", "got none");
    header("huge", false, 0xffffffff, 0xffffffff, 0xffffffff);
    expect("huge", KOLO_FORMAT, "wanted dimensions", "4294967295 × 4294967295");
    header("large", false, 0x7fffffff, 1000, 1000);
    expect("large", KOLO_FORMAT, "truncated", "got 16");
    header("large.gz", true, 0x7fffffff, 1000, 1000);
    expect("large.gz", KOLO_FORMAT, "2147483647000016 bytes", "compressed bytes can hold");
}

/* 64 MB of zeros in 64 kB, behind a header that claims 1,000 bytes: read with 32 MB to spare. */
static void a_bomb_takes_no_memory(void **state)
{
    (void)state;
    static unsigned char zeros[1 << 20];
    gzFile file = gzopen("bomb", "wb9");
    gzwrite(file, images, (unsigned)make_idx(images, 3, (uint32_t[]){5, 10, 20}, 256));
    for (int i = 0; i < 64; i++) gzwrite(file, zeros, sizeof zeros);
    gzclose(file);
    pid_t child = fork();
    if (child == 0) {
        kolo_data *data = kolo_idx("bomb", "labels");
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        bool refused = !data && strstr(kolo_last_error().text, "got more");
        _exit(refused && usage.ru_maxrss < 48 * 1024 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
#ifndef __SANITIZE_ADDRESS__
    assert_int_equal(status, 0);
#endif
}

static void labels_must_match_the_images(void **state)
{
    (void)state;
    write_file("six", labels, make_idx(labels, 1, (uint32_t[]){6}, 3));
    assert_null(kolo_idx("images", "six"));
    assert_failure(KOLO_FORMAT, "six: wanted 5 labels", "image of images", "got 6", NULL);
    assert_null(kolo_idx("images", "images"));
    assert_failure(KOLO_FORMAT, "images: wanted labels", "got an array of 3 dimensions", NULL);
}

/* As somebody who is not root, in a child: nobody may read it. */
static void no_permission_is_said(void **state)
{
    (void)state;
    assert_int_equal(chmod("images", 0), 0);
    assert_int_equal(chmod(test_folder, 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
        bool refused = !kolo_idx("images", "labels") && kolo_last_error().code == KOLO_IO;
        _exit(refused && strstr(kolo_last_error().text, "images: wanted a file to read, got: Permission denied") ? 0
                                                                                                                 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    chmod("images", 0644);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(plain_and_compressed_are_told_by_content, write_pair),
        cmocka_unit_test_setup(a_gzip_file_may_have_members, write_pair),
        cmocka_unit_test_setup(colours_are_a_fourth_dimension, write_pair),
        cmocka_unit_test_setup(every_truncation_is_one_sentence, write_pair),
        cmocka_unit_test_setup(every_changed_byte_is_survived, write_pair),
        cmocka_unit_test_setup(wrong_files_are_refused, write_pair),
        cmocka_unit_test_setup(nothing_may_follow, write_pair),
        cmocka_unit_test_setup(absurd_headers_allocate_nothing, write_pair),
        cmocka_unit_test_setup(a_bomb_takes_no_memory, write_pair),
        cmocka_unit_test_setup(labels_must_match_the_images, write_pair),
        cmocka_unit_test_setup(no_permission_is_said, write_pair),
    };
    return cmocka_run_group_tests_name("data/idx", tests, enter_folder, leave_folder);
}
