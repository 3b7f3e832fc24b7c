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
    expect_sentence(kolo_allgather(&value, INT64_MIN, &value), "wanted a count of at least 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_keeps_its_values),
        cmocka_unit_test(bad_arguments_are_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
