/* Digits that Kolo draws: the same by seed, different by split, and not to be told apart by a trivial rule. */
#include "ext/data/files.h"
#include "data/data.h"

#define PIXELS 784

static void the_seed_decides(void **state)
{
    (void)state;
    kolo_data *a = kolo_synthetic_digits(KOLO_TRAIN, .samples = 300),
              *b = kolo_synthetic_digits(KOLO_TRAIN, .samples = 500);
    kolo_data *c = kolo_synthetic_digits(KOLO_TRAIN, .samples = 300, .seed = 2);
    assert_memory_equal(a->bytes, b->bytes, 300 * PIXELS); /* a sample is its own, however many there are */
    assert_memory_equal(a->labels, b->labels, 300 * sizeof(int32_t));
    assert_memory_not_equal(a->bytes, c->bytes, 300 * PIXELS);
    assert_string_equal(kolo_data_get_info(c).source, "digits drawn by Kolo (seed 2)");
    kolo_data_free(&a), kolo_data_free(&b), kolo_data_free(&c);
}

static int compare(const void *a, const void *b)
{
    return memcmp(*(const uint8_t *const *)a, *(const uint8_t *const *)b, PIXELS);
}

static void no_sample_is_in_both_splits(void **state)
{
    (void)state;
    enum { each = 4000 };
    kolo_data *train = kolo_synthetic_digits(KOLO_TRAIN, .samples = each),
              *test = kolo_synthetic_digits(KOLO_TEST, .samples = each);
    static const uint8_t *image[2 * each];
    for (int i = 0; i < each; i++) {
        image[i] = train->bytes + i * PIXELS;
        image[each + i] = test->bytes + i * PIXELS;
    }
    qsort(image, 2 * each, sizeof *image, compare);
    for (int i = 1; i < 2 * each; i++) assert_true(memcmp(image[i - 1], image[i], PIXELS) != 0);
    kolo_data_free(&train), kolo_data_free(&test);
}

static void the_sizes_are_mnists(void **state)
{
    (void)state;
    kolo_data *data = kolo_synthetic_digits(KOLO_TEST);
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 10000);
    assert_memory_equal(info.shape, ((int[]){28, 28, 1, 0}), sizeof info.shape);
    assert_int_equal(info.classes, 10);
    assert_true(info.synthetic);
    int count[10] = {0};
    for (int i = 0; i < 10000; i++) count[data->labels[i]]++;
    for (int i = 0; i < 10; i++) assert_in_range(count[i], 850, 1150); /* 1000 ± 5 standard deviations of 30 */
    kolo_data_free(&data);
}

/* The nearest class mean knows 82 % of MNIST's test digits. Far more would say that the digits need no network, and
 * about 10 % that there is nothing in them. */
static void class_means_do_not_solve_them(void **state)
{
    (void)state;
    static double mean[10][PIXELS];
    int count[10] = {0}, right = 0;
    kolo_data *train = kolo_synthetic_digits(KOLO_TRAIN, .samples = 5000),
              *test = kolo_synthetic_digits(KOLO_TEST, .samples = 1000);
    for (int i = 0; i < 5000; i++) count[train->labels[i]]++;
    for (int i = 0; i < 5000; i++)
        for (int p = 0; p < PIXELS; p++)
            mean[train->labels[i]][p] += (double)train->bytes[i * PIXELS + p] / count[train->labels[i]];
    for (int i = 0; i < 1000; i++) {
        int best = 0;
        double least = 1e300;
        for (int digit = 0; digit < 10; digit++) {
            double distance = 0;
            for (int p = 0; p < PIXELS; p++) {
                double d = test->bytes[i * PIXELS + p] - mean[digit][p];
                distance += d * d;
            }
            if (distance < least) least = distance, best = digit;
        }
        right += best == test->labels[i];
    }
    print_message("nearest class mean: %d of 1000 right\n", right);
    assert_in_range(right, 300, 850);
    kolo_data_free(&train), kolo_data_free(&test);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    assert_null(kolo_synthetic_digits());
    assert_failure(KOLO_INVALID, "kolo_synthetic_digits: .split: wanted KOLO_TRAIN or KOLO_TEST, got 0", NULL);
    assert_null(kolo_synthetic_digits(KOLO_TRAIN, .samples = -1));
    assert_failure(KOLO_INVALID, "wanted .samples of 1 to 2147483647, got -1", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seed_decides),     cmocka_unit_test(no_sample_is_in_both_splits),
        cmocka_unit_test(the_sizes_are_mnists), cmocka_unit_test(class_means_do_not_solve_them),
        cmocka_unit_test(wrong_use_is_refused),
    };
    return cmocka_run_group_tests_name("data/digits", tests, NULL, NULL);
}
