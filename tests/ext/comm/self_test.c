/* self.c: a group of one moves everything to itself. */
#include "threads.h"

static void does_everything(void **state)
{
    (void)state;
    assert_int_equal(kolo_comm_self()->rank, 0);
    assert_int_equal(kolo_comm_self()->size, 1);
    assert_true(check_comm(kolo_comm_self(), 1, 3, 100000));
}

static void may_be_aborted_and_closed_without_effect(void **state)
{
    (void)state;
    kolo_comm *comm = kolo_comm_self();
    comm->kind->abort(comm);
    comm->kind->close(comm);
    assert_true(check_comm(kolo_comm_self(), 2, 1, 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_everything),
        cmocka_unit_test(may_be_aborted_and_closed_without_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
