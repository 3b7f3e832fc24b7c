/* nested.c: threads of several ranks as one group. Here the ranks are threads too: a local group between the members 0
 * of several local groups, so that the hierarchy is tested without a launcher. */
#include "threads.h"

typedef struct launched {
    int ranks, all;
    kolo_comm *inner[MEMBERS_MAX], *outer[MEMBERS_MAX], *members[MEMBERS_MAX];
} launched;

static void house_open(launched *job, int ranks, const int *threads)
{
    *job = (launched){.ranks = ranks};
    int size = 0;
    for (int r = 0; r < ranks; r++) size += threads[r];
    assert_int_equal(kolo_comm_local_open(ranks, job->outer), KOLO_OK);
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(kolo_comm_local_open(threads[r], job->inner + job->all), KOLO_OK);
        for (int t = 0; t < threads[r]; t++, job->all++) {
            int i = job->all;
            assert_int_equal(kolo_comm_nested_open(job->inner[i], job->outer[r], threads, &job->members[i]), KOLO_OK);
            assert_int_equal(job->members[i]->rank, i);
            assert_int_equal(job->members[i]->size, size);
        }
    }
}

static void house_close(launched *job)
{
    for (int i = 0; i < job->all; i++) {
        job->members[i]->kind->close(job->members[i]);
        job->inner[i]->kind->close(job->inner[i]);
    }
    for (int r = 0; r < job->ranks; r++) job->outer[r]->kind->close(job->outer[r]);
}

static bool everything(kolo_comm *comm, void *argument)
{
    (void)argument;
    return check_comm(comm, (uint64_t)comm->size, 3, 30000);
}

static void does_everything(void **state)
{
    (void)state;
    const int shapes[][5] = {{1}, {4}, {1, 1, 1, 1}, {2, 2, 2}, {1, 2}, {3, 1, 2}, {1, 5}, {2, 1, 1, 3, 1}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        launched job;
        int ranks = 0;
        while (ranks < 5 && shapes[k][ranks] > 0) ranks++;
        house_open(&job, ranks, shapes[k]);
        run_members(job.all, job.members, everything, NULL);
        house_close(&job);
    }
}

/* The members of the second of three ranks, 3 and 4, which are threads 0 and 1 of their rank. */
static bool one_sends(kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_message message;
    double number = comm->rank;
    bool there = false;
    if (comm->rank == 3) EXPECT(comm->kind->send(comm, &number, sizeof number, 4, 1) == KOLO_OK, "to 4");
    if (comm->rank == 4) {
        while (!there) EXPECT(comm->kind->probe(comm, 3, 1, &there, &message) == KOLO_OK, "from 3");
        EXPECT(message.from == 3, "got %d", message.from);
        EXPECT(comm->kind->receive(comm, &number, sizeof number, 3, 1, &message) == KOLO_OK, "from 3");
        EXPECT(number == 3 && message.from == 3, "got %g from %d", number, message.from);
    }
    int other = comm->rank < 3 ? 3 : comm->rank < 5 ? 5 : 0;
    EXPECT(comm->kind->send(comm, &number, sizeof number, other, 1) == KOLO_UNSUPPORTED, "to %d", other);
    EXPECT(comm->kind->receive(comm, &number, sizeof number, KOLO_ANY_RANK, 1, &message) == KOLO_UNSUPPORTED, "any");
    return true;
}

static void messages_stay_within_a_rank(void **state)
{
    (void)state;
    launched job;
    house_open(&job, 3, (const int[]){3, 2, 1});
    run_members(6, job.members, one_sends, NULL);
    house_close(&job);
}

/* Within a rank a failing thread wakes the others; the one that speaks for the rank, when its own caller aborts in
 * turn, tells the other ranks. */
static bool one_fails(kolo_comm *comm, void *argument)
{
    int who = *(const int *)argument;
    double number = 1;
    EXPECT(comm->kind->barrier(comm) == KOLO_OK, "before");
    kolo_status status = comm->rank == who ? KOLO_MEMORY : KOLO_OK;
    while (status == KOLO_OK) status = comm->kind->allreduce(comm, &number, 1, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM);
    comm->kind->abort(comm); /* what every member does that failed */
    EXPECT(status == KOLO_COMM || comm->rank == who, "got %d", status);
    return true;
}

static void an_abort_reaches_every_thread_of_every_rank(void **state)
{
    (void)state;
    for (int who = 0; who < 6; who++) {
        launched job;
        house_open(&job, 2, (const int[]){2, 4});
        run_members(6, job.members, one_fails, &who);
        house_close(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_everything),
        cmocka_unit_test(messages_stay_within_a_rank),
        cmocka_unit_test(an_abort_reaches_every_thread_of_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
