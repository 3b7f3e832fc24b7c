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
        rig_ok(accelerator->add(queue, there, second, (int64_t)count));
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
        rig_ok(accelerator->sum(queue, sum, there, sizeof parts[0], number, count));
        double *got = device_read(sum, (size_t)count * sizeof *sum);
        assert_memory_equal(got, wanted, (size_t)count * sizeof *got);
        device_free(there, 0), device_free(sum, 0);
        free(got);
    }
}

int main(void)
{
    if (!device_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrays_are_added),
                                       cmocka_unit_test(parts_are_added_in_their_order)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    accelerator->close(&queue);
    return failed;
}
