/* Sums of arrays on the device: exact, in their order. */
#include "device.h"

static void arrays_are_added(void **state)
{
    (void)state;
    dice d = {12};
    static const int counts[] = {1, 3, 4, 17, 33, 1000, 4099};
    for (size_t c = 0; c < 2 * sizeof counts / sizeof *counts; c++) {
        size_t count = (size_t)counts[c / 2], bytes = count * sizeof(float), shift = c % 2 ? 4 : 0;
        float *to = numbers(&d, (int64_t)count, 0), *from = numbers(&d, (int64_t)count, 0);
        float *there = device_array(to, bytes, 0), *second = device_array(from, bytes, shift);
        rig_ok(streams->add(stream, there, second, (int64_t)count));
        float *got = device_read(there, bytes);
        for (size_t i = 0; i < count; i++) assert_true(got[i] == to[i] + from[i]);
        device_free(there, 0), device_free(second, shift);
        free(to), free(from), free(got);
    }
}

/* 1e16 and ones: another order gives another sum. */
static void parts_are_added_in_their_order(void **state)
{
    (void)state;
    enum { room = 40, padding = 3 };
    dice d = {13};
    for (int c = 0; c < 30; c++) {
        int count = roll_between(&d, 1, room), number = roll_between(&d, 1, 19);
        double parts[19][room + padding], wanted[room] = {0};
        for (int n = 0; n < number; n++)
            for (int i = 0; i < room + padding; i++) parts[n][i] = roll_coin(&d) ? 1e16 : roll_coin(&d) ? -1e16 : 1.25;
        for (int n = 0; n < number; n++)
            for (int i = 0; i < count; i++) wanted[i] += parts[n][i];
        void *there = device_array(parts, sizeof parts, 0);
        double *sum = device_array(NULL, (size_t)count * sizeof *sum, 0);
        rig_ok(streams->sum(stream, sum, there, sizeof parts[0], number, count));
        double *got = device_read(sum, (size_t)count * sizeof *sum);
        assert_memory_equal(got, wanted, (size_t)count * sizeof *got);
        device_free(there, 0), device_free(sum, 0);
        free(got);
    }
}

static void odd_values_are_found(void **state)
{
    (void)state;
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY, 3e38f, -1e-45f};
    dice d = {14};
    for (int c = 0; c < 60; c++) {
        int count = roll_between(&d, 1, 3000), at = roll_between(&d, 0, count - 1), which = c % 6;
        float *values = numbers(&d, count, 0);
        bool finite = c % 2, again = !finite;
        values[at] = odd[which];
        float *there = device_array(values, (size_t)count * sizeof *there, c % 3 ? 4 : 0);
        rig_ok(streams->are_finite(stream, there, count, &finite));
        rig_ok(streams->are_finite(stream, there, count, &again));
        assert_int_equal(finite, which > 3);
        assert_int_equal(again, finite);
        device_free(there, c % 3 ? 4 : 0);
        free(values);
    }
    bool finite = false;
    rig_ok(streams->are_finite(stream, NULL, 0, &finite));
    assert_true(finite);
}

int main(void)
{
    if (!device_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrays_are_added),
                                       cmocka_unit_test(parts_are_added_in_their_order),
                                       cmocka_unit_test(odd_values_are_found)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    streams->close(&stream);
    return failed;
}
