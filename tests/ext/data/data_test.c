/* Data from arrays, slices, samples and gathering. */
#include "ext/data/files.h"
#include "data/data.h"

#include <math.h>
#include <time.h>

static float features[4 * 6];
static const int32_t classes[4] = {2, 0, 1, 2};

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) features[i] = (float)i / 2;
    kolo_clear_error();
    return 0;
}

#define MAKE(...) kolo_data_from_arrays(features, classes, .samples = 4, .shape = {2, 3}, __VA_ARGS__)

static void arrays_are_copied(void **state)
{
    (void)state;
    features[3] = NAN; /* the user's own business */
    kolo_data *data = MAKE(.classes = 0);
    assert_non_null(data);
    features[0] = 77;
    float sample[6];
    int label;
    assert_int_equal(kolo_data_sample(data, 0, sample, &label), KOLO_OK);
    assert_float_equal(sample[0], 0, 0);
    assert_true(isnan(sample[3]));
    assert_int_equal(label, 2);
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 4);
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.classes, 3);
    assert_int_equal(kolo_data_sample(data, 1, NULL, &label), KOLO_OK);
    assert_int_equal(label, 0);
    assert_int_equal(kolo_data_sample(data, 1, sample, NULL), KOLO_OK);
    kolo_data_free(&data);
    kolo_data_free(&data);
    kolo_data_free(NULL);
}

static void without_labels_they_are_minus_one(void **state)
{
    (void)state;
    int label = 5;
    int32_t gathered[2] = {5, 5};
    kolo_data *data = kolo_data_from_arrays(features, .samples = 4, .shape = {6});
    assert_int_equal(kolo_data_get_info(data).classes, 0);
    assert_int_equal(kolo_data_sample(data, 3, NULL, &label), KOLO_OK);
    assert_int_equal(label, -1);
    kolo_data_gather(data, NULL, NULL, 1, 2, &(kolo_gathered){.labels = gathered});
    assert_int_equal(gathered[0] + gathered[1], -2);
    kolo_data_free(&data);
}

static void impossible_arrays_are_refused(void **state)
{
    (void)state;
    assert_null(kolo_data_from_arrays(NULL, classes, .samples = 4, .shape = {6}));
    assert_failure(KOLO_INVALID, "kolo_data_from_arrays: wanted an array of features, got NULL", NULL);
    for (int64_t samples = -1; samples <= 0; samples++) {
        assert_null(kolo_data_from_arrays(features, classes, .samples = samples, .shape = {6}));
        assert_failure(KOLO_INVALID, "wanted .samples of 1 to 2147483647, got ", NULL);
    }
    assert_null(kolo_data_from_arrays(features, classes, .samples = INT64_C(1) << 40, .shape = {6}));
    assert_failure(KOLO_INVALID, "got 1099511627776", NULL);
    static const int bad[][4] = {{0}, {2, 0, 3}, {-1}, {2, -3}, {65536, 65536, 65536, 65536}, {1 << 20, 1 << 20}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(kolo_data_from_arrays(features, classes, .samples = 1,
                                          .shape = {bad[i][0], bad[i][1], bad[i][2], bad[i][3]}));
        assert_failure(KOLO_INVALID, "wanted", "got", NULL);
    }
}

static void labels_are_checked(void **state)
{
    (void)state;
    assert_null(MAKE(.classes = 2));
    assert_failure(KOLO_INVALID, "label 0: wanted 0 to 1, got 2", NULL);
    assert_null(MAKE(.classes = -1));
    assert_failure(KOLO_INVALID, ".classes of at least 1, got -1", NULL);
    assert_null(kolo_data_from_arrays(features, (int32_t[]){0, 1, -4, 0}, .samples = 4, .shape = {6}));
    assert_failure(KOLO_INVALID, "label 2: wanted 0 to 2147483646, got -4", NULL);
    kolo_data *data = MAKE(.classes = 10);
    assert_int_equal(kolo_data_get_info(data).classes, 10);
    kolo_data_free(&data);
}

static void slices_outlive_what_they_were_cut_from(void **state)
{
    (void)state;
    kolo_data *data = MAKE(.classes = 0), *part = kolo_data_slice(data, 1, 3), *last = kolo_data_slice(part, 2, 1);
    assert_non_null(last);
    kolo_data_free(&data);
    kolo_data_free(&part);
    float sample[6];
    int label;
    assert_int_equal(kolo_data_get_info(last).samples, 1);
    assert_int_equal(kolo_data_sample(last, 0, sample, &label), KOLO_OK);
    assert_float_equal(sample[5], 23.0f / 2, 0);
    assert_int_equal(label, 2);
    kolo_data_free(&last);
}

static void slices_stay_inside(void **state)
{
    (void)state;
    kolo_data *data = MAKE(.classes = 0);
    static const int64_t bad[][2] = {{-1, 2}, {4, 1}, {0, 5}, {3, 2}, {0, 0}, {1, INT64_MAX}, {INT64_MAX, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(kolo_data_slice(data, bad[i][0], bad[i][1]));
        assert_failure(KOLO_INVALID, "kolo_data_slice: wanted samples within 0 to 3, got", NULL);
    }
    assert_int_equal(kolo_data_sample(data, 4, features, NULL), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "kolo_data_sample: wanted a sample of 0 to 3, got 4", NULL);
    assert_int_equal(kolo_data_sample(data, -1, features, NULL), KOLO_INVALID);
    kolo_data_free(&data);
}

static void null_fails_quietly(void **state)
{
    (void)state;
    kolo_clear_error();
    int label = 3;
    assert_null(kolo_data_slice(NULL, 0, 1));
    assert_int_not_equal(kolo_data_sample(NULL, 0, features, &label), KOLO_OK);
    assert_int_equal(kolo_data_get_info(NULL).samples, 0);
    assert_int_equal(kolo_last_error().code, KOLO_OK);
}

static void gathering_follows_the_index(void **state)
{
    (void)state;
    kolo_data *data = MAKE(.classes = 0);
    float gathered[3 * 6];
    int32_t labels[3];
    kolo_data_gather(data, NULL, (int32_t[]){3, 0, 3}, 0, 3, &(kolo_gathered){.features = gathered, .labels = labels});
    assert_memory_equal(labels, ((int32_t[]){2, 2, 2}), sizeof labels);
    assert_memory_equal(gathered, features + 18, 6 * sizeof(float));
    assert_memory_equal(gathered + 6, features, 6 * sizeof(float));
    kolo_data_gather(data, NULL, NULL, 1, 3, &(kolo_gathered){.features = gathered, .labels = labels});
    assert_memory_equal(gathered, features + 6, sizeof gathered);
    assert_memory_equal(labels, classes + 1, sizeof labels);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(arrays_are_copied, fill),
        cmocka_unit_test_setup(without_labels_they_are_minus_one, fill),
        cmocka_unit_test_setup(impossible_arrays_are_refused, fill),
        cmocka_unit_test_setup(labels_are_checked, fill),
        cmocka_unit_test_setup(slices_outlive_what_they_were_cut_from, fill),
        cmocka_unit_test_setup(slices_stay_inside, fill),
        cmocka_unit_test_setup(null_fails_quietly, fill),
        cmocka_unit_test_setup(gathering_follows_the_index, fill),
    };
    return cmocka_run_group_tests_name("data/data", tests, NULL, NULL);
}
