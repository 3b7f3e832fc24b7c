/* sum.c: slices that cover everything once, and sums in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/sum.h"

static void slices_cover_everything_in_whole_cache_lines(void **state)
{
    (void)state;
    const int64_t counts[] = {0, 1, 7, 15, 16, 17, 127, 128, 129, 1003, 1199882, INT64_C(1) << 40};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        for (int size = 1; size <= 70; size += size < 9 ? 1 : 20) {
            assert_int_equal(kolo_slice_begin(counts[k], KOLO_TYPE_FLOAT, 0, size), 0);
            assert_int_equal(kolo_slice_begin(counts[k], KOLO_TYPE_FLOAT, size, size), counts[k]);
            for (int r = 0; r < size; r++) {
                int64_t begin = kolo_slice_begin(counts[k], KOLO_TYPE_DOUBLE, r, size);
                int64_t end = kolo_slice_begin(counts[k], KOLO_TYPE_DOUBLE, r + 1, size);
                assert_true(begin <= end && (begin % 8 == 0 || begin == counts[k]));
                assert_true(end - begin <= counts[k] / size + 16); /* as even as whole lines can be */
            }
        }
    }
}

/* 2²⁴ + 1 is not a float: whoever adds the ones first gets another sum. */
static void adds_in_the_order_of_the_sources(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static float big[COUNT], one[COUNT], also_one[COUNT], sum[COUNT];
    for (int i = 0; i < COUNT; i++) {
        big[i] = 0x1p24f;
        one[i] = also_one[i] = 1;
    }
    kolo_sum_slice(KOLO_TYPE_FLOAT, (void *[]){big, one, also_one}, 3, (void *[]){sum}, 1, 10, COUNT - 10);
    for (int i = 0; i < COUNT; i++) assert_true(sum[i] == (i < 10 || i >= COUNT - 10 ? 0 : 0x1p24f));
    kolo_sum_slice(KOLO_TYPE_FLOAT, (void *[]){one, also_one, big}, 3, (void *[]){one, sum}, 2, 0, COUNT);
    for (int i = 0; i < COUNT; i++) assert_true(sum[i] == 0x1p24f + 2 && one[i] == sum[i] && also_one[i] == 1);
}

/* Sums and products of integers wrap around instead of being undefined (the sanitizers watch). */
static void integers_wrap_around(void **state)
{
    (void)state;
    int32_t most[3] = {INT32_MAX, INT32_MIN, 1 << 20}, two[3] = {2, 2, 1 << 20}, to[3];
    kolo_reduce_slice(KOLO_TYPE_INT32, KOLO_REDUCE_SUM, (void *[]){most, two}, 2, (void *[]){to}, 1, 0, 3);
    assert_true(to[0] == INT32_MIN + 1 && to[1] == INT32_MIN + 2 && to[2] == 1 << 21);
    kolo_reduce_slice(KOLO_TYPE_INT32, KOLO_REDUCE_PRODUCT, (void *[]){most, two}, 2, (void *[]){to}, 1, 0, 3);
    assert_true(to[0] == -2 && to[1] == 0 && to[2] == 0);
    kolo_reduce_slice(KOLO_TYPE_INT32, KOLO_REDUCE_MIN, (void *[]){most, two}, 2, (void *[]){to}, 1, 0, 3);
    assert_true(to[0] == 2 && to[1] == INT32_MIN && to[2] == 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_cover_everything_in_whole_cache_lines),
        cmocka_unit_test(adds_in_the_order_of_the_sources),
        cmocka_unit_test(integers_wrap_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
