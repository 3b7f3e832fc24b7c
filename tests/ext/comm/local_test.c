/* local.c: threads as a group, more of them than cores. */
#include "threads.h"

#include <time.h>

static bool everything(kolo_comm *comm, void *argument)
{
    int64_t large = *(const int64_t *)argument;
    bool passed = check_comm(comm, (uint64_t)comm->size, 4, large);
    comm->kind->close(comm);
    return passed;
}

static void does_everything_with_one_to_nine_members(void **state)
{
    (void)state;
    int64_t large = 70000;
    for (int size = 1; size <= 9; size++) {
        kolo_comm *members[MEMBERS_MAX];
        assert_int_equal(kolo_comm_local_open(size, members), KOLO_OK);
        for (int i = 0; i < size; i++) assert_int_equal(members[i]->rank, i);
        run_members(size, members, everything, &large);
    }
}

/* What the header of local.c promises beyond comm.h: ((v₀ + v₁) + v₂) + …, whatever the slices. */
static bool sums_in_order(kolo_comm *comm, void *argument)
{
    (void)argument;
    enum { COUNT = 10007 };
    float *got = malloc(COUNT * sizeof *got);
    for (int i = 0; i < COUNT; i++) got[i] = (float)value(11, comm->rank, i);
    EXPECT(comm->kind->allreduce(comm, got, COUNT, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_OK, "allreduce");
    for (int i = 0; i < COUNT; i++) {
        float want = (float)value(11, 0, i);
        for (int m = 1; m < comm->size; m++) want += (float)value(11, m, i);
        EXPECT(want == got[i], "element %d: wanted %.9g, got %.9g", i, (double)want, (double)got[i]);
    }
    free(got);
    comm->kind->close(comm);
    return true;
}

static void adds_in_member_order(void **state)
{
    (void)state;
    for (int size = 2; size <= 9; size++) {
        kolo_comm *members[MEMBERS_MAX];
        assert_int_equal(kolo_comm_local_open(size, members), KOLO_OK);
        run_members(size, members, sums_in_order, NULL);
    }
}

static bool many_short_calls(kolo_comm *comm, void *argument)
{
    (void)argument;
    for (int k = 0; k < 3000; k++) {
        double number = k + comm->rank;
        EXPECT(comm->kind->allreduce(comm, &number, 1, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM) == KOLO_OK, "call %d", k);
        EXPECT(number == comm->size * (k + (comm->size - 1) / 2.0), "call %d: got %g", k, number);
        EXPECT(comm->kind->barrier(comm) == KOLO_OK, "call %d", k);
    }
    comm->kind->close(comm);
    return true;
}

static void meets_thousands_of_times(void **state)
{
    (void)state;
    kolo_comm *members[MEMBERS_MAX];
    assert_int_equal(kolo_comm_local_open(8, members), KOLO_OK);
    run_members(8, members, many_short_calls, NULL);
}

static bool last_member_fails(kolo_comm *comm, void *argument)
{
    bool late = *(const bool *)argument;
    float numbers[100] = {0};
    for (int k = 0; k < 10; k++) EXPECT(comm->kind->barrier(comm) == KOLO_OK, "call %d", k);
    if (comm->rank == comm->size - 1) {
        if (late) usleep(20000); /* by now the others sleep */
        comm->kind->abort(comm);
    }
    EXPECT(comm->kind->allreduce(comm, numbers, 100, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_COMM,
           "the call at hand");
    EXPECT(comm->kind->barrier(comm) == KOLO_COMM, "a later call");
    EXPECT(comm->kind->broadcast(comm, numbers, sizeof numbers, 0) == KOLO_COMM, "a later call");
    comm->kind->close(comm);
    return true;
}

static void an_abort_wakes_everybody(void **state)
{
    (void)state;
    for (int k = 0; k < 20; k++) {
        bool late = k % 2 == 0;
        kolo_comm *members[MEMBERS_MAX];
        assert_int_equal(kolo_comm_local_open(2 + k % 8, members), KOLO_OK);
        run_members(2 + k % 8, members, last_member_fails, &late);
    }
}

/* An abort in the middle of other members' work: whoever gets KOLO_COMM may free its buffers at once, so nobody may
 * still be reading them (the sanitizers watch), and a call that succeeded has the right result. */
static bool one_fails_some_time(kolo_comm *comm, void *argument)
{
    unsigned when = *(const unsigned *)argument;
    for (int k = 0;; k++) {
        int count = 5000;
        float *numbers = malloc((size_t)count * sizeof *numbers);
        for (int i = 0; i < count; i++) numbers[i] = (float)(k % 100);
        if (comm->rank == 0 && (unsigned)k == when) comm->kind->abort(comm);
        kolo_status status = comm->kind->allreduce(comm, numbers, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
        float last = numbers[count - 1];
        memset(numbers, 0xff, (size_t)count * sizeof *numbers);
        free(numbers);
        if (status == KOLO_COMM) break;
        EXPECT(status == KOLO_OK && last == (float)(comm->size * (k % 100)), "call %d: got %g", k, (double)last);
    }
    comm->kind->close(comm);
    return true;
}

static void an_abort_lets_nobody_free_what_others_read(void **state)
{
    (void)state;
    for (unsigned when = 0; when < 60; when += 3) {
        kolo_comm *members[MEMBERS_MAX];
        assert_int_equal(kolo_comm_local_open(6, members), KOLO_OK);
        run_members(6, members, one_fails_some_time, &when);
    }
}

static bool disagrees(kolo_comm *comm, void *argument)
{
    (void)argument;
    float numbers[64] = {0};
    bool odd = comm->rank == 2;
    EXPECT(comm->kind->allreduce(comm, numbers, odd ? 63 : 64, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_COMM,
           "another count");
    EXPECT(comm->kind->allreduce(comm, numbers, 8, odd ? KOLO_TYPE_DOUBLE : KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) ==
               KOLO_COMM,
           "type");
    EXPECT(comm->kind->broadcast(comm, numbers, 8, odd ? 1 : 0) == KOLO_COMM, "another root");
    EXPECT((odd ? comm->kind->barrier(comm) : comm->kind->broadcast(comm, numbers, 8, 0)) == KOLO_COMM, "operation");
    EXPECT(comm->kind->barrier(comm) == KOLO_OK, "the group still works");
    comm->kind->close(comm);
    return true;
}

static void calls_that_differ_fail_on_every_member(void **state)
{
    (void)state;
    kolo_comm *members[MEMBERS_MAX];
    assert_int_equal(kolo_comm_local_open(4, members), KOLO_OK);
    run_members(4, members, disagrees, NULL);
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool waits_for_the_last(kolo_comm *comm, void *argument)
{
    (void)argument;
    if (comm->rank == 0) usleep(300000);
    EXPECT(comm->kind->barrier(comm) == KOLO_OK, "barrier");
    comm->kind->close(comm);
    return true;
}

/* Seven members wait 0.3 s for the eighth: spinning would burn at least 0.3 s of processor time, sleeping almost none.
 */
static void waiting_members_sleep(void **state)
{
    (void)state;
    kolo_comm *members[MEMBERS_MAX];
    assert_int_equal(kolo_comm_local_open(8, members), KOLO_OK);
    double before = cpu_seconds();
    run_members(8, members, waits_for_the_last, NULL);
    assert_true(cpu_seconds() - before < 0.1);
}

static void a_group_of_nobody_is_refused(void **state)
{
    (void)state;
    kolo_comm *members[1];
    assert_int_equal(kolo_comm_local_open(0, members), KOLO_INVALID);
    assert_int_equal(kolo_comm_local_open(-3, members), KOLO_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_everything_with_one_to_nine_members),
        cmocka_unit_test(adds_in_member_order),
        cmocka_unit_test(meets_thousands_of_times),
        cmocka_unit_test(an_abort_wakes_everybody),
        cmocka_unit_test(an_abort_lets_nobody_free_what_others_read),
        cmocka_unit_test(calls_that_differ_fail_on_every_member),
        cmocka_unit_test(waiting_members_sleep),
        cmocka_unit_test(a_group_of_nobody_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
