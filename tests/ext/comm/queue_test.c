/* queue.c: collectives that run while their caller goes on, over groups of threads. */
#include "threads.h"

#include "comm/queue.h"

enum { REQUESTS = 40, MOST = 3000 };

typedef struct group {
    int size;
    kolo_comm *below[MEMBERS_MAX], *queues[MEMBERS_MAX];
} group;

static void group_open(group *g, int size)
{
    g->size = size;
    assert_int_equal(kolo_comm_local_open(size, g->below), KOLO_OK);
    for (int i = 0; i < size; i++) {
        assert_int_equal(kolo_comm_queue_open(g->below[i], &g->queues[i]), KOLO_OK);
        assert_int_equal(g->queues[i]->rank, i);
        assert_int_equal(g->queues[i]->size, size);
    }
}

static void group_close(group *g)
{
    for (int i = 0; i < g->size; i++) g->queues[i]->kind->close(g->queues[i]);
    for (int i = 0; i < g->size; i++) g->below[i]->kind->close(g->below[i]);
}

static void run_group(int size, member_function function, void *argument)
{
    group g;
    group_open(&g, size);
    run_members(size, g.queues, function, argument);
    group_close(&g);
}

/* A request that sums values[count]. */
typedef struct sum_request {
    kolo_request request;
    int64_t values[MOST];
    int count;
} sum_request;

static kolo_status run_sum(kolo_comm *comm, void *argument)
{
    sum_request *sum = argument;
    return comm->kind->allreduce(comm, sum->values, sum->count, KOLO_TYPE_INT64, KOLO_REDUCE_SUM);
}

static kolo_status start_sum(kolo_comm *comm, sum_request *sum, int count, int64_t value)
{
    sum->count = count;
    for (int i = 0; i < count; i++) sum->values[i] = value + comm->rank;
    return kolo_request_start(comm, &sum->request, run_sum, sum);
}

static bool check_sum(const kolo_comm *comm, const int64_t *values, int count, int64_t value)
{
    int64_t wanted = comm->size * value + comm->size * (comm->size - 1) / 2;
    for (int i = 0; i < count; i++)
        EXPECT(values[i] == wanted, "element %d of %d: wanted %lld, got %lld", i, count, (long long)wanted,
               (long long)values[i]);
    return true;
}

/* ---------------------------------------------------------------- order */

static bool all_operations(kolo_comm *comm, void *argument)
{
    (void)argument;
    return check_comm(comm, 7, 2, 5000);
}

/* Direct calls alone are those of the comm below. */
static void does_everything_directly(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) run_group(size, all_operations, NULL);
}

/* Requests and direct calls in an order that is random, but the same on each member. Members are late in turn. */
static bool mixed(kolo_comm *comm, void *argument)
{
    (void)argument;
    sum_request *sums = calloc(REQUESTS, sizeof *sums);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < REQUESTS; i++) {
            uint64_t random = mix((uint64_t)round, (uint64_t)i, 3);
            if (random % 5 == (uint64_t)comm->rank) usleep(300);
            EXPECT(start_sum(comm, &sums[i], (int)(random % MOST), i) == KOLO_OK, "%d", i);
            if (random % 7 != 0) continue;
            int64_t value = 100 + i + comm->rank;
            EXPECT(comm->kind->allreduce(comm, &value, 1, KOLO_TYPE_INT64, KOLO_REDUCE_SUM) == KOLO_OK, "%d", i);
            EXPECT(check_sum(comm, &value, 1, 100 + i), "a direct call behind request %d", i);
            for (int before = 0; before <= i; before++)
                EXPECT(kolo_request_is_done(&sums[before].request), "request %d was overtaken by a direct call",
                       before);
        }
        for (int i = REQUESTS - 1; i >= 0; i--) { /* in any order */
            EXPECT(kolo_request_wait(&sums[i].request) == KOLO_OK, "%d", i);
            EXPECT(check_sum(comm, sums[i].values, sums[i].count, i), "request %d", i);
        }
    }
    free(sums);
    return true;
}

static void keeps_the_order_of_each_member(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size++) run_group(size, mixed, NULL);
}

/* Nobody waits, and still the request gets done. */
static bool goes_on(kolo_comm *comm, void *argument)
{
    (void)argument;
    sum_request *sum = calloc(1, sizeof *sum);
    EXPECT(start_sum(comm, sum, 10, 1) == KOLO_OK, "start");
    while (!kolo_request_is_done(&sum->request)) usleep(100);
    EXPECT(check_sum(comm, sum->values, 10, 1), "the sum");
    EXPECT(kolo_request_wait(&sum->request) == KOLO_OK, "wait");
    free(sum);
    return true;
}

static void makes_progress_by_itself(void **state)
{
    (void)state;
    run_group(3, goes_on, NULL);
}

/* Threads of several ranks: queues over a nested group, whose outer comm is a queue, too. */
static void queues_over_queues(void **state)
{
    (void)state;
    enum { RANKS = 2, THREADS = 3 };
    static const int threads[RANKS] = {THREADS, THREADS};
    group outer;
    kolo_comm *inner[RANKS * THREADS], *nested[RANKS * THREADS], *members[RANKS * THREADS];
    group_open(&outer, RANKS);
    for (int r = 0; r < RANKS; r++) assert_int_equal(kolo_comm_local_open(THREADS, inner + r * THREADS), KOLO_OK);
    for (int i = 0; i < RANKS * THREADS; i++) {
        assert_int_equal(kolo_comm_nested_open(inner[i], outer.queues[i / THREADS], threads, &nested[i]), KOLO_OK);
        assert_int_equal(kolo_comm_queue_open(nested[i], &members[i]), KOLO_OK);
    }
    run_members(RANKS * THREADS, members, mixed, NULL);
    for (int i = 0; i < RANKS * THREADS; i++) {
        members[i]->kind->close(members[i]);
        nested[i]->kind->close(nested[i]);
        inner[i]->kind->close(inner[i]);
    }
    group_close(&outer);
}

/* A request of a group without a queue runs at once. */
static void needs_no_queue(void **state)
{
    (void)state;
    sum_request *sum = calloc(1, sizeof *sum);
    assert_int_equal(start_sum(kolo_comm_self(), sum, 10, 5), KOLO_OK);
    assert_true(kolo_request_is_done(&sum->request));
    assert_int_equal(kolo_request_wait(&sum->request), KOLO_OK);
    assert_int_equal(sum->values[9], 5);
    free(sum);
}

/* ---------------------------------------------------------------- failures */

static bool differ(kolo_comm *comm, void *argument)
{
    (void)argument;
    sum_request *sums = calloc(2, sizeof *sums);
    EXPECT(start_sum(comm, &sums[0], comm->rank == 1 ? 6 : 5, 0) == KOLO_OK, "start");
    EXPECT(start_sum(comm, &sums[1], 7, 0) == KOLO_OK, "start");
    EXPECT(kolo_request_wait(&sums[0].request) == KOLO_COMM, "the members' requests differ");
    kolo_failure failure = kolo_failure_take();
    EXPECT(strstr(failure.text,
                  "replica 0 called asynchronous allreduce of 5 int64_t, replica 1 asynchronous allreduce "
                  "of 6 int64_t"),
           "%s", failure.text);
    EXPECT(kolo_request_wait(&sums[1].request) == KOLO_OK, "the next request is the same on all members");
    EXPECT(check_sum(comm, sums[1].values, 7, 0), "and has the right sum");
    free(sums);
    return true;
}

static void requests_that_differ_fail_on_all_members(void **state)
{
    (void)state;
    run_group(3, differ, NULL);
}

/* The last member calls directly what the others have as a request. */
static bool differ_in_kind(kolo_comm *comm, void *argument)
{
    (void)argument;
    sum_request *sum = calloc(1, sizeof *sum);
    int64_t values[5] = {0};
    kolo_status status;
    if (comm->rank == comm->size - 1) status = comm->kind->allreduce(comm, values, 5, KOLO_TYPE_INT64, KOLO_REDUCE_SUM);
    else {
        EXPECT(start_sum(comm, sum, 5, 0) == KOLO_OK, "start");
        status = kolo_request_wait(&sum->request);
    }
    kolo_failure failure = kolo_failure_take();
    EXPECT(status == KOLO_COMM && strstr(failure.text, "asynchronous allreduce of 5 int64_t"), "%s", failure.text);
    free(sum);
    return true;
}

static void a_request_is_not_a_direct_call(void **state)
{
    (void)state;
    run_group(3, differ_in_kind, NULL);
}

/* The last member never starts what the others wait for, and aborts. */
static bool called_off(kolo_comm *comm, void *argument)
{
    (void)argument;
    sum_request *sums = calloc(3, sizeof *sums);
    if (comm->rank == comm->size - 1) {
        usleep(2000);
        comm->kind->abort(comm);
    } else {
        for (int i = 0; i < 3; i++) EXPECT(start_sum(comm, &sums[i], 5, 0) == KOLO_OK, "start");
        for (int i = 0; i < 3; i++) {
            EXPECT(kolo_request_wait(&sums[i].request) == KOLO_COMM, "request %d was called off", i);
            kolo_failure failure = kolo_failure_take();
            EXPECT(strcmp(failure.text, KOLO_COMM_CALLED_OFF) == 0, "%s", failure.text);
        }
    }
    EXPECT(comm->kind->aborted(comm), "all know it");
    free(sums);
    return true;
}

static void an_abort_ends_all_requests(void **state)
{
    (void)state;
    run_group(3, called_off, NULL);
}

typedef struct gate {
    atomic_bool began, open;
} gate;

static kolo_status wait_at_gate(kolo_comm *comm, void *argument)
{
    (void)comm;
    gate *g = argument;
    atomic_store(&g->began, true);
    while (!atomic_load(&g->open)) usleep(100);
    return KOLO_OK;
}

/* What has begun ends, what has not begun fails, and closing waits for the rest. */
static void requests_can_be_dropped(void **state)
{
    (void)state;
    group g;
    group_open(&g, 1);
    gate way = {0}, never = {.open = true};
    kolo_request first, second;
    assert_int_equal(kolo_request_start(g.queues[0], &first, wait_at_gate, &way), KOLO_OK);
    assert_int_equal(kolo_request_start(g.queues[0], &second, wait_at_gate, &never), KOLO_OK);
    while (!atomic_load(&way.began)) usleep(100);
    kolo_comm_queue_drop(g.queues[0]);
    assert_false(kolo_request_is_done(&first));
    assert_int_equal(kolo_request_wait(&second), KOLO_COMM);
    assert_string_equal(kolo_failure_take().text, KOLO_COMM_CALLED_OFF);
    atomic_store(&way.open, true);
    assert_int_equal(kolo_request_wait(&first), KOLO_OK);
    sum_request *sum = calloc(1, sizeof *sum);
    assert_int_equal(start_sum(g.queues[0], sum, 4, 1), KOLO_OK);
    group_close(&g);
    assert_true(kolo_request_is_done(&sum->request));
    assert_false(atomic_load(&never.began));
    free(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_everything_directly),
        cmocka_unit_test(keeps_the_order_of_each_member),
        cmocka_unit_test(makes_progress_by_itself),
        cmocka_unit_test(queues_over_queues),
        cmocka_unit_test(needs_no_queue),
        cmocka_unit_test(requests_that_differ_fail_on_all_members),
        cmocka_unit_test(a_request_is_not_a_direct_call),
        cmocka_unit_test(an_abort_ends_all_requests),
        cmocka_unit_test(requests_can_be_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
