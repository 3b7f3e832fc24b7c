/* collectives.c: the public calls in a program of one rank; test_mpi.py has those of several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <kolo.h>
#include <string.h>

static void one_rank_keeps_its_values(void **state)
{
    (void)state;
    float values[2] = {3, 4}, all[2] = {0, 0};
    assert_int_equal(kolo_allreduce(values, 2), KOLO_OK);
    assert_int_equal(kolo_broadcast(values, 2, 0), KOLO_OK);
    assert_int_equal(kolo_allgather(values, 2, all), KOLO_OK);
    assert_int_equal(kolo_barrier(), KOLO_OK);
    assert_true(values[0] == 3 && values[1] == 4 && all[0] == 3 && all[1] == 4);
    assert_int_equal(kolo_allreduce(NULL, 0), KOLO_OK);
}

static void one_rank_makes_every_call(void **state)
{
    (void)state;
    double doubles[2] = {3, 4}, more[2] = {0, 0};
    int64_t longs[2] = {5, 6}, counts[1] = {0}, sent[1] = {2};
    float one[1] = {7}, *arrays[] = {one};
    assert_int_equal(kolo_allreduce(doubles, 2, .op = KOLO_REDUCE_MEAN), KOLO_OK);
    assert_int_equal(kolo_allreduce(longs, 2, .op = KOLO_REDUCE_PRODUCT), KOLO_OK);
    assert_int_equal(kolo_grouped_allreduce(arrays, ((int64_t[]){1}), 1), KOLO_OK);
    assert_int_equal(kolo_grouped_allreduce(NULL, NULL, 0), KOLO_OK);
    assert_true(doubles[1] == 4 && longs[1] == 6 && one[0] == 7);
    assert_int_equal(kolo_reduce_scatter(doubles, 2, more), KOLO_OK);
    assert_true(more[0] == 3 && more[1] == 4);
    assert_int_equal(kolo_alltoall(longs, 2, more), KOLO_OK);
    assert_memory_equal(longs, more, sizeof longs);
    assert_int_equal(kolo_alltoallv(doubles, sent, more, 2, .received_counts = counts), KOLO_OK);
    assert_true(counts[0] == 2 && more[1] == 4);
    assert_int_equal(kolo_allgatherv(doubles, 1, more, 1, .counts = counts), KOLO_OK);
    assert_true(counts[0] == 1 && more[0] == 3);
}

static void expect_sentence(kolo_status status, const char *sentence)
{
    assert_int_equal(status, KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "collectives_test.c:"));
    assert_non_null(strstr(kolo_last_error().text, sentence));
    kolo_clear_error();
}

static void bad_arguments_are_one_sentence(void **state)
{
    (void)state;
    float value = 1;
    expect_sentence(kolo_allreduce(NULL, 3), "kolo_allreduce: wanted 3 values, got NULL");
    expect_sentence(kolo_allreduce(&value, -1), "wanted a count of at least 0, got -1");
    expect_sentence(kolo_broadcast(NULL, 1, 0), "kolo_broadcast: wanted 1 values, got NULL");
    expect_sentence(kolo_broadcast(&value, 1, 1), "wanted a root from 0 to 0, got 1");
    expect_sentence(kolo_broadcast(&value, 1, -2), "wanted a root from 0 to 0, got -2");
    expect_sentence(kolo_allgather(&value, 1, NULL), "kolo_allgather: wanted 1 elements of room");
    expect_sentence(kolo_allreduce(&value, 1, .op = 17), ".op: wanted one of KOLO_REDUCE_SUM, …");
    expect_sentence(kolo_allreduce((int32_t *)NULL, 0, .op = KOLO_REDUCE_MEAN), "for KOLO_REDUCE_MEAN, got int32_t");
    expect_sentence(kolo_allreduce((char *)NULL, 0), "to reduce, got bytes");
    expect_sentence(kolo_allreduce(&value, INT64_MAX / 2), "wanted a count that fits in memory");
    expect_sentence(kolo_alltoall(&value, INT64_MAX / 2, &value), "wanted a count that fits in memory");
    expect_sentence(kolo_alltoall(&value, -1, &value), "wanted a count of at least 0");
    expect_sentence(kolo_alltoallv(&value, NULL, &value, 1), "wanted 1 counts, got NULL");
    expect_sentence(kolo_allgatherv(&value, 2, &value, 1), "rank 0: wanted room for 2 elements, got room for 1");
    expect_sentence(kolo_grouped_allreduce(NULL, NULL, 2), "wanted 2 arrays with their counts, got NULL");
    expect_sentence(kolo_grouped_allreduce(NULL, NULL, -1), "wanted at least 0 arrays, got -1");
    expect_sentence(kolo_send(&value, 1, 0), "there is no other rank to send to: the job has 1 rank");
    expect_sentence(kolo_receive(&value, 1, 1), "there is no other rank to receive from: the job has 1 rank");
    expect_sentence(kolo_receive(&value, 1, KOLO_ANY_RANK), "there is no other rank to receive from");
    expect_sentence(kolo_allgather(&value, INT64_MIN, &value), "wanted a count of at least 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_keeps_its_values),
        cmocka_unit_test(one_rank_makes_every_call),
        cmocka_unit_test(bad_arguments_are_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
