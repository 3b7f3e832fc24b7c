/* local.c: threads as a group, more of them than cores. */
#include "threads.h"

#include <stdatomic.h>
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

/* Whether this thread's failure has this sentence; drops it. */
static bool says(const char *sentence)
{
    kolo_failure failure = kolo_failure_take();
    bool right = strstr(failure.text, sentence) != NULL;
    if (!right) fprintf(stderr, "wanted \"%s\", got \"%s\"\n", sentence, failure.text);
    return right;
}

static bool names_both_calls(kolo_comm *comm, void *argument)
{
    (void)argument;
    float numbers[64] = {0};
    size_t parts[4] = {1, 1, 1, comm->rank == 3 ? 2 : 1}, offsets[4] = {0, 4, 8, 12};
    bool odd = comm->rank == 2;
    kolo_scope scope = kolo_enter("kolo_fit", (kolo_here){"/a/folder/cnn.c", odd ? 40 : 31});
    EXPECT(comm->kind->allreduce(comm, numbers, 64, KOLO_TYPE_FLOAT, odd ? KOLO_REDUCE_MAX : KOLO_REDUCE_SUM) ==
               KOLO_COMM,
           "reduction");
    EXPECT(says("all replicas must make the same call: replica 0 called allreduce of 64 floats (kolo_fit, cnn.c:31), "
                "replica 2 allreduce of 64 floats, maximum (kolo_fit, cnn.c:40)"),
           "the sentence");
    kolo_leave(scope, KOLO_OK);
    EXPECT(comm->kind->allgatherv(comm, numbers, numbers, parts, offsets) == KOLO_COMM, "sizes of parts");
    EXPECT(says("replica 0 called allgather of parts of 4 bytes in all, replica 3 allgather of parts of 5"), "sizes");
    EXPECT(comm->kind->barrier(comm) == KOLO_OK, "calls from other lines are the same");
    comm->kind->close(comm);
    return true;
}

static void both_calls_are_named_with_their_places(void **state)
{
    (void)state;
    kolo_comm *members[MEMBERS_MAX];
    assert_int_equal(kolo_comm_local_open(4, members), KOLO_OK);
    run_members(4, members, names_both_calls, NULL);
}

static atomic_int stalled, named;

/* Member 1 comes only when the others have given up. */
static bool one_does_not_come(kolo_comm *comm, void *argument)
{
    (void)argument;
    float number = 1;
    kolo_message message;
    EXPECT(comm->kind->barrier(comm) == KOLO_OK, "before");
    if (comm->rank == 1) {
        while (atomic_load(&stalled) < comm->size - 1) usleep(1000);
        EXPECT(comm->kind->barrier(comm) == KOLO_COMM, "too late");
        EXPECT(comm->kind->receive(comm, &number, sizeof number, 0, 0, &message) == KOLO_COMM, "nobody will send");
        EXPECT(comm->kind->send(comm, &number, sizeof number, 0, 0) == KOLO_COMM, "nobody will receive");
    } else {
        EXPECT(comm->kind->allreduce(comm, &number, 1, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_COMM, "given up");
        kolo_failure failure = kolo_failure_take();
        bool mine =
            strcmp(failure.text, "replica 1 has not come for 0.3 s (KOLO_STALL_LIMIT): replicas 0, 2, 3 wait in "
                                 "allreduce of 1 float") == 0;
        EXPECT(mine || strcmp(failure.text, KOLO_COMM_CALLED_OFF) == 0, "%s", failure.text);
        atomic_fetch_add(&named, mine);
        atomic_fetch_add(&stalled, 1);
    }
    comm->kind->close(comm);
    return true;
}

static void a_member_that_does_not_come_is_named_once(void **state)
{
    (void)state;
    kolo_comm *members[MEMBERS_MAX];
    setenv("KOLO_STALL_LIMIT", "0.3", 1);
    for (int k = 0; k < 3; k++) {
        atomic_store(&stalled, 0);
        atomic_store(&named, 0);
        assert_int_equal(kolo_comm_local_open(4, members), KOLO_OK);
        run_members(4, members, one_does_not_come, NULL);
        assert_int_equal(atomic_load(&named), 1);
    }
    unsetenv("KOLO_STALL_LIMIT");
}

/* Each comes 0.3 s after the one before, which is below the limit, though the first waits longer in all. */
static bool comes_in_turn(kolo_comm *comm, void *argument)
{
    (void)argument;
    usleep((useconds_t)comm->rank * 300000);
    EXPECT(comm->kind->barrier(comm) == KOLO_OK, "they come in turn");
    comm->kind->close(comm);
    return true;
}

static void members_that_come_in_turn_are_waited_for(void **state)
{
    (void)state;
    kolo_comm *members[MEMBERS_MAX];
    setenv("KOLO_STALL_LIMIT", "0.8", 1);
    assert_int_equal(kolo_comm_local_open(4, members), KOLO_OK);
    unsetenv("KOLO_STALL_LIMIT");
    run_members(4, members, comes_in_turn, NULL);
}

/* Messages that nobody receives are freed with the group (the sanitizers watch). */
static bool sends_and_leaves(kolo_comm *comm, void *argument)
{
    (void)argument;
    for (int k = 0; k < 10; k++)
        EXPECT(comm->kind->send(comm, "a message", 10, (comm->rank + 1) % comm->size, k) == KOLO_OK, "%d", k);
    comm->kind->close(comm);
    return true;
}

static void messages_may_be_left_behind(void **state)
{
    (void)state;
    kolo_comm *members[MEMBERS_MAX];
    assert_int_equal(kolo_comm_local_open(3, members), KOLO_OK);
    run_members(3, members, sends_and_leaves, NULL);
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
        cmocka_unit_test(both_calls_are_named_with_their_places),
        cmocka_unit_test(a_member_that_does_not_come_is_named_once),
        cmocka_unit_test(members_that_come_in_turn_are_waited_for),
        cmocka_unit_test(messages_may_be_left_behind),
        cmocka_unit_test(waiting_members_sleep),
        cmocka_unit_test(a_group_of_nobody_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
