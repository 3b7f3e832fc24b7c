/* NumPy's arrays: every type, order and version it writes, archives, and what is refused. */
#include "ext/data/files.h"
#include "ext/data/numpy_arrays.h"
#include "data/npy.h"

static int clean(void **state)
{
    (void)state;
    kolo_clear_error();
    return system("rm -f *");
}

static void every_type_and_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof numpy_cases / sizeof *numpy_cases; i++) {
        kolo_npy_array array;
        write_file("array.npy", numpy_cases[i].bytes, numpy_cases[i].size);
        assert_int_equal(kolo_npy_read("array.npy", &array), KOLO_OK);
        assert_int_equal(array.rank, 3);
        assert_int_equal(array.dim[0] * 100 + array.dim[1] * 10 + array.dim[2], 234);
        for (int k = 0; k < 24; k++) {
            double wanted = array.kind == 'b' ? k > 0 : k, got = kolo_npy_number(&array, k);
            if (got != wanted) fail_msg("%s: element %d: wanted %g, got %g", numpy_cases[i].what, k, wanted, got);
        }
        free(array.values);
    }
}

static void halves_are_exact(void **state)
{
    (void)state;
    static uint16_t bits[] = {0x0001, 0x03ff, 0x3555, 0x7bff, 0xc000, 0x7c00};
    static const double values[] = {0x1p-24, 1023 * 0x1p-24, 0.333251953125, 65504, -2, __builtin_inf()};
    kolo_npy_array array = {.kind = 'f', .size = 2, .values = bits};
    for (int i = 0; i < 6; i++) assert_true(kolo_npy_number(&array, i) == values[i]);
}

static void archives_as_kerass(void **state)
{
    (void)state;
    write_file("plain.npz", numpy_plain_zip, sizeof numpy_plain_zip);
    write_file("packed.npz", numpy_packed_zip, sizeof numpy_packed_zip);
    kolo_data *data = kolo_npz("packed.npz", "x_train", "y_train");
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 4);
    assert_memory_equal(info.shape, ((int[]){28, 28, 1, 0}), sizeof info.shape);
    assert_int_equal(info.classes, 5);
    assert_string_equal(info.source, "packed.npz: x_train");
    float pixels[784];
    int label;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(kolo_data_sample(data, i, pixels, &label), KOLO_OK);
        assert_int_equal(label, ((int[]){3, 1, 4, 1})[i]);
        for (int k = 0; k < 784; k++) assert_float_equal(pixels[k], (float)((784 * i + k) % 256) / 255, 1e-7);
    }
    kolo_data_free(&data);
    data = kolo_npz("plain.npz", "x_train.npy", "y_train", .shape = {20}, .scale = 1);
    assert_int_equal(kolo_data_get_info(data).rank, 1);
    assert_int_equal(kolo_data_sample(data, 0, pixels, NULL), KOLO_OK);
    assert_float_equal(pixels[5], 28, 0);
    kolo_data_free(&data);
    assert_null(kolo_npz("plain.npz", "x_test"));
    assert_failure(KOLO_NOT_FOUND, "kolo_npz: plain.npz: wanted an array \"x_test\", got x_train, y_train", NULL);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    float features[6] = {0, 1.5f, -2, 3, 4, 5}, read[6];
    kolo_data *data = kolo_data_from_arrays(features, (int32_t[]){1, 0, 2}, .samples = 3, .shape = {2}), *again;
    assert_int_equal(kolo_npy_write(data, "x.npy", "y.npy"), KOLO_OK);
    again = kolo_npy("x.npy", "y.npy");
    assert_int_equal(kolo_data_get_info(again).samples, 3);
    for (int i = 0; i < 3; i++) {
        int label;
        assert_int_equal(kolo_data_sample(again, i, read, &label), KOLO_OK);
        assert_memory_equal(read, features + 2 * i, 2 * sizeof(float));
        assert_int_equal(label, ((int[]){1, 0, 2})[i]);
    }
    kolo_data_free(&again), kolo_data_free(&data);
    data = kolo_data_from_arrays(features, .samples = 3, .shape = {2}, .targets = features + 3);
    assert_int_equal(kolo_npy_write(data, "x.npy", "y.npy"), KOLO_OK);
    again = kolo_npy("x.npy", "y.npy");
    assert_int_equal(kolo_data_get_info(again).labels, 0);
    assert_int_equal(kolo_data_get_info(again).target_shape[0], 1);
    kolo_data_free(&again), kolo_data_free(&data);
    data = kolo_data_from_arrays(NULL, .tokens = (int32_t[]){7, 8, 9}, .samples = 3, .shape = {1});
    assert_int_equal(kolo_npy_write(data, "x.npy", NULL), KOLO_OK);
    again = kolo_npy("x.npy", .tokens = true);
    assert_true(kolo_data_get_info(again).tokens);
    assert_int_equal(kolo_data_sample(again, 2, read, NULL), KOLO_OK);
    assert_float_equal(read[0], 9, 0);
    assert_int_equal(kolo_npy_write(again, NULL, "y.npy"), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "wanted data with labels or targets", NULL);
    kolo_data_free(&again), kolo_data_free(&data);
}

static void every_truncation_and_change_is_survived(void **state)
{
    (void)state;
    static unsigned char bytes[sizeof numpy_plain_zip];
    const unsigned char *whole = numpy_cases[3].bytes;
    for (size_t cut = 1; cut < numpy_cases[3].size; cut++) {
        write_file("cut.npy", whole, cut);
        assert_null(kolo_npy("cut.npy"));
        assert_failure(KOLO_FORMAT, "kolo_npy: cut.npy: ", NULL);
    }
    for (size_t at = 0; at < 128; at++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bytes, whole, numpy_cases[3].size);
            bytes[at] ^= (unsigned char)(1 << bit);
            write_file("changed.npy", bytes, numpy_cases[3].size);
            kolo_data *data = kolo_npy("changed.npy");
            kolo_data_free(&data);
            kolo_clear_error();
        }
    for (size_t cut = 1; cut < sizeof numpy_plain_zip; cut += 3) {
        write_file("cut.npz", numpy_plain_zip, cut);
        assert_null(kolo_npz("cut.npz", "x_train"));
        assert_failure(KOLO_FORMAT, "kolo_npz: cut.npz", NULL);
    }
    for (size_t at = 0; at < sizeof bytes; at++) {
        memcpy(bytes, numpy_plain_zip, sizeof bytes);
        bytes[at] ^= 0x10;
        write_file("changed.npz", bytes, sizeof bytes);
        kolo_data *data = kolo_npz("changed.npz", "x_train");
        kolo_data_free(&data);
        kolo_clear_error();
    }
}

/* A .npy file of version 1 with any header. */
static void write_header(const char *dict, size_t elements)
{
    unsigned char bytes[512] = "\x93NUMPY\x01";
    size_t length = strlen(dict);
    bytes[8] = (unsigned char)length;
    memcpy(bytes + 10, dict, length);
    write_file("made.npy", bytes, 10 + length + elements);
}

static void wrong_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *dict, *why;
    } wrong[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "wanted elements u1 to u8"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "got '|O'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "wanted elements u1 to u8"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", "wanted fortran_order True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,2", "wanted a shape"},
        {"{'descr': '<f4', 'fortran_order': False}", "wanted 'descr', 'fortran_order' and 'shape'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", "a key 'x' too many"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,99999999999)}", "that memory can hold"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}", "truncated"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "wanted a shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}", "which is 0 bytes, got 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "which is 4 bytes, got 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}", "at most 8 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,2)}", "at most 4 dimensions"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': ()}", "wanted an array of 1 to 2147483647 samples"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_header(wrong[i].dict, 8);
        assert_null(kolo_npy("made.npy"));
        kolo_error error = kolo_last_error();
        if (!strstr(error.text, wrong[i].why)) fail_msg("\"%s\" lacks \"%s\"", error.text, wrong[i].why);
        kolo_clear_error();
    }
    write_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1L, ), }  \n", 8); /* as Python 2 wrote it */
    kolo_data *data = kolo_npy("made.npy");
    assert_int_equal(kolo_data_get_info(data).samples, 1);
    kolo_data_free(&data);
}

static void labels_must_fit(void **state)
{
    (void)state;
    write_file("x.npy", numpy_cases[0].bytes, numpy_cases[0].size);
    write_header("{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", 12);
    assert_null(kolo_npy("x.npy", "made.npy"));
    assert_failure(KOLO_FORMAT, "made.npy: wanted labels of 2 samples, got int32 {3}", NULL);
    float minus[2] = {-1, -1};
    kolo_data *data = kolo_data_from_arrays(minus, .samples = 2, .shape = {1});
    assert_int_equal(kolo_npy_write(data, "minus.npy", NULL), KOLO_OK);
    kolo_data_free(&data);
    assert_null(kolo_npy("minus.npy", .tokens = true));
    assert_failure(KOLO_FORMAT, "wanted whole numbers for .tokens, got float32 {2, 1}", NULL);
    assert_null(kolo_npy("x.npy", .shape = {5}));
    assert_failure(KOLO_INVALID, "wanted a .shape of 12 elements", "got {5}", NULL);
    assert_null(kolo_npy(NULL));
    assert_failure(KOLO_INVALID, "wanted the name of a .npy file, got none", NULL);
    mkdir("folder", 0755);
    assert_null(kolo_npz("folder", "x"));
    assert_failure(KOLO_FORMAT, "folder: wanted a file, got a folder", NULL);
    rmdir("folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_type_and_order, clean),
        cmocka_unit_test_setup(halves_are_exact, clean),
        cmocka_unit_test_setup(archives_as_kerass, clean),
        cmocka_unit_test_setup(what_is_written_is_read, clean),
        cmocka_unit_test_setup(every_truncation_and_change_is_survived, clean),
        cmocka_unit_test_setup(wrong_headers_are_refused, clean),
        cmocka_unit_test_setup(labels_must_fit, clean),
    };
    return cmocka_run_group_tests_name("data/npy", tests, enter_folder, leave_folder);
}
