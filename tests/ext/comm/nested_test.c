/* nested.c: threads of several ranks as one group. Here the ranks are threads too: a local group between the members 0
 * of several local groups, so that the hierarchy is tested without a launcher. */
#include "threads.h"

typedef struct launched {
    int ranks, threads;
    kolo_comm *inner[MEMBERS_MAX], *outer[MEMBERS_MAX], *members[MEMBERS_MAX];
} launched;

static void house_open(launched *job, int ranks, int threads)
{
    job->ranks = ranks;
    job->threads = threads;
    assert_int_equal(kolo_comm_local_open(ranks, job->outer), KOLO_OK);
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(kolo_comm_local_open(threads, job->inner + r * threads), KOLO_OK);
        for (int t = 0; t < threads; t++) {
            int i = r * threads + t;
            assert_int_equal(kolo_comm_nested_open(job->inner[i], job->outer[r], &job->members[i]), KOLO_OK);
            assert_int_equal(job->members[i]->rank, i);
            assert_int_equal(job->members[i]->size, ranks * threads);
        }
    }
}

static void house_close(launched *job)
{
    for (int i = 0; i < job->ranks * job->threads; i++) {
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
    const int shapes[][2] = {{1, 1}, {1, 4}, {4, 1}, {2, 2}, {3, 2}, {2, 3}, {2, 5}, {4, 3}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        launched job;
        house_open(&job, shapes[k][0], shapes[k][1]);
        run_members(job.ranks * job.threads, job.members, everything, NULL);
        house_close(&job);
    }
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
        house_open(&job, 2, 3);
        run_members(6, job.members, one_fails, &who);
        house_close(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_everything),
        cmocka_unit_test(an_abort_reaches_every_thread_of_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
