/* Sums over several devices: what NCCL is asked for, what is refused before it is asked, and what becomes of those who
 * wait for a member that never comes. Members are threads, with a stream each. */
#include "device.h"

#include "ext/comm/threads.h"

#include <stdatomic.h>

#define MEMBERS 4

typedef struct order {
    int devices[MEMBERS]; /* of the members */
    int missing;          /* a member that does not come to the sum, and calls the others off; -1: none */
    kolo_status wanted;   /* of open_comm() */
    const char *sentence; /* in what a failure says */
    kolo_comm *group[MEMBERS]; /* instead of the thread's own */
    bool apart; /* the threads stand for processes, which begin a sum without the others */
} order;

static float term(int member, int64_t i)
{
    return (float)((i * 7 + member * 13) % 33 - 16) / 8; /* sums are exact */
}

static void fill(kolo_stream *own, float *there, int member, int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values + 1);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) values[i] = term(member, i);
    rig_ok(streams->copy(own, there, values, (size_t)count * sizeof *values));
    free(values);
}

static bool is_sum(kolo_stream *own, const float *there, int members, int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values + 1);
    bool right = values != NULL;
    rig_ok(streams->copy(own, values, there, (size_t)count * sizeof *values));
    rig_ok(streams->synchronize(own));
    for (int64_t i = 0; i < count && right; i++) {
        float wanted = 0;
        for (int m = 0; m < members; m++) wanted += term(m, i);
        right = values[i] == wanted;
    }
    free(values);
    return right;
}

/* Whether the call failed, and said so. */
static bool failed(kolo_status status, kolo_status wanted, const char *sentence)
{
    kolo_failure failure = kolo_failure_take();
    bool right = status == wanted && strstr(failure.text, sentence);
    if (!right) print_error("wanted failure %d, got %d: %s\n", (int)wanted, (int)status, failure.text);
    return right;
}

static bool sum_some(kolo_comm *comm, kolo_stream *own, kolo_comm *together)
{
    static const int64_t counts[] = {1, 3, 33, 1000, 70001};
    float *there[5];
    bool right = true;
    /* Two at a time are on their way. */
    for (int c = 0; c < 5; c++) {
        rig_ok(streams->allocate(own, (size_t)counts[c] * sizeof(float), "a test", (void **)&there[c]));
        fill(own, there[c], comm->rank, counts[c]);
        rig_ok(together->kind->allreduce(together, there[c], counts[c], KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
        if (c > 0) right = right && is_sum(own, there[c - 1], comm->size, counts[c - 1]);
    }
    right = right && is_sum(own, there[4], comm->size, counts[4]);
    for (int c = 0; c < 5; c++) streams->release(own, there[c]);
    return right;
}

static bool member(kolo_comm *comm, void *argument)
{
    const order *o = argument;
    kolo_stream *own;
    kolo_comm *together = NULL;
    rig_ok(device_open_stream(o->devices[comm->rank], &own));
    kolo_status status = streams->open_comm(own, comm, &together);
    bool right = status == o->wanted;
    if (o->wanted != KOLO_OK) right = failed(status, o->wanted, o->sentence) && !together;
    else right = right && sum_some(comm, own, together);
    if (together) together->kind->close(together);
    streams->close(&own);
    return right;
}

/* Members that do not meet on the host, so that they wait for each other in NCCL. */
static kolo_status meet_nobody(kolo_comm *comm, const kolo_collective *call)
{
    (void)comm, (void)call;
    return KOLO_OK;
}

static void run_order(order *o, int size, member_function function)
{
    kolo_comm *members[MEMBERS];
    rig_ok(kolo_comm_local_open(size, members));
    kolo_comm_kind processes = *members[0]->kind;
    processes.wait_for_threads = NULL;
    processes.meet = meet_nobody;
    for (int i = 0; i < size && o->apart; i++) members[i]->kind = &processes;
    if (o->apart) setenv("KOLO_SHIM_RANKS", "1", 1);
    run_members(size, members, function, o);
    unsetenv("KOLO_SHIM_RANKS");
    for (int i = 0; i < size; i++) members[i]->kind->close(members[i]);
}

static void want_devices(int devices)
{
    if (tested_backend()->devices->devices() < devices) skip();
}

static void members_sum(void **state)
{
    (void)state;
    for (int size = 1; size <= MEMBERS && size <= tested_backend()->devices->devices(); size++) {
        order o = {.wanted = KOLO_OK};
        for (int m = 0; m < size; m++) o.devices[m] = size - 1 - m;
        run_order(&o, size, member);
    }
}

static void take_note(void *argument)
{
    *(bool *)argument = true;
}

/* A sum on the second stream waits only for what the first was given before the event. */
static bool member_beside(kolo_comm *comm, void *argument)
{
    enum { COUNT = 3000 };
    const order *o = argument;
    kolo_stream *own, *second;
    kolo_comm *together, *beside;
    kolo_event *event = NULL;
    float *there;
    bool later = false;
    rig_ok(device_open_stream(o->devices[comm->rank], &own));
    rig_ok(device_open_stream(o->devices[comm->rank], &second));
    rig_ok(streams->open_comm(own, comm, &together));
    rig_ok(streams->open_comm_beside(second, together, &beside));
    rig_ok(streams->allocate(own, COUNT * sizeof *there, "a test", (void **)&there));
    fill(own, there, comm->rank, COUNT);
    rig_ok(streams->record_event(own, &event));
    rig_ok(streams->call(own, take_note, &later));
    rig_ok(streams->wait_event(second, event));
    rig_ok(beside->kind->allreduce(beside, there, COUNT, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
    rig_ok(streams->synchronize(second));
    bool early = !later || !device_is_simulated(), right = is_sum(second, there, comm->size, COUNT);
    if (!early) print_error("the sum has waited for the whole first stream\n");
    fill(own, there, comm->rank, COUNT);
    rig_ok(together->kind->allreduce(together, there, COUNT, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
    right = right && is_sum(own, there, comm->size, COUNT);
    beside->kind->close(beside);
    together->kind->close(together);
    streams->free_event(own, event);
    streams->release(own, there);
    streams->close(&second);
    streams->close(&own);
    return right && early;
}

static void members_sum_on_second_streams(void **state)
{
    (void)state;
    for (int size = 1; size <= MEMBERS && size <= tested_backend()->devices->devices(); size++) {
        order o = {.wanted = KOLO_OK};
        for (int m = 0; m < size; m++) o.devices[m] = m;
        run_order(&o, size, member_beside);
    }
}

/* Which the host then sums for. */
static void two_on_one_device_are_refused_alike(void **state)
{
    (void)state;
    run_order(&(order){.wanted = KOLO_UNSUPPORTED, .sentence = "replicas 0 and 1 compute on the same GPU"}, 2, member);
    want_devices(3);
    run_order(&(order){.devices = {0, 2, 1, 2},
                       .wanted = KOLO_UNSUPPORTED,
                       .sentence = "replicas 1 and 3 compute on the same GPU"},
              4, member);
}

/* Threads of two ranks: "ranks" that meet by their first threads. */
static bool nested_member(kolo_comm *comm, void *argument)
{
    order *o = argument;
    (void)comm;
    return member(o->group[comm->rank], argument);
}

static void ranks_of_threads_sum(void **state)
{
    (void)state;
    want_devices(4);
    kolo_comm *ranks[2], *inner[2][2], *unused[MEMBERS];
    order o = {.devices = {0, 1, 2, 3}};
    rig_ok(kolo_comm_local_open(2, ranks));
    for (int r = 0; r < 2; r++) {
        rig_ok(kolo_comm_local_open(2, inner[r]));
        for (int t = 0; t < 2; t++)
            rig_ok(kolo_comm_nested_open(inner[r][t], ranks[r], (const int[]){2, 2}, &o.group[2 * r + t]));
    }
    rig_ok(kolo_comm_local_open(MEMBERS, unused)); /* whose numbers are the threads' */
    setenv("KOLO_SHIM_RANKS", "1", 1);
    run_members(MEMBERS, unused, nested_member, &o);
    unsetenv("KOLO_SHIM_RANKS");
    for (int i = 0; i < MEMBERS; i++) {
        o.group[i]->kind->close(o.group[i]);
        inner[i / 2][i % 2]->kind->close(inner[i / 2][i % 2]);
        unused[i]->kind->close(unused[i]);
    }
    for (int r = 0; r < 2; r++) ranks[r]->kind->close(ranks[r]);
}

/* The others are already waiting when it calls them off: for their streams, or for the thread itself. */
static bool waiting_member(kolo_comm *comm, void *argument)
{
    const order *o = argument;
    kolo_stream *own;
    kolo_comm *together;
    float *there;
    rig_ok(device_open_stream(comm->rank, &own));
    rig_ok(streams->open_comm(own, comm, &together));
    rig_ok(streams->allocate(own, 100 * sizeof *there, "a test", (void **)&there));
    rig_ok(streams->clear(own, there, 100 * sizeof *there));
    bool right = true;
    if (comm->rank == o->missing) {
        usleep(100000);
        comm->kind->abort(comm);
    } else {
        if (o->apart) rig_ok(together->kind->allreduce(together, there, 100, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
        if (o->apart) right = failed(streams->synchronize(own), KOLO_COMM, "another replica failed");
        right = right && failed(together->kind->allreduce(together, there, 100, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM),
                                KOLO_COMM, "another replica failed");
    }
    together->kind->close(together);
    streams->release(own, there);
    streams->close(&own);
    return right;
}

static void nobody_waits_for_one_that_failed(void **state)
{
    (void)state;
    want_devices(3);
    for (int missing = 0; missing < 6; missing++)
        run_order(&(order){.missing = missing / 2, .apart = missing % 2}, 3, waiting_member);
}

/* The second member sums fewer numbers, or others. */
static bool differing_member(kolo_comm *comm, void *argument)
{
    const order *o = argument;
    kolo_stream *own;
    kolo_comm *together;
    double *there;
    rig_ok(device_open_stream(comm->rank, &own));
    rig_ok(streams->open_comm(own, comm, &together));
    rig_ok(streams->allocate(own, 100 * sizeof *there, "a test", (void **)&there));
    rig_ok(streams->clear(own, there, 100 * sizeof *there));
    bool odd = comm->rank == 1;
    int64_t count = odd && !o->missing ? 0 : 100;
    kolo_type type = odd && o->missing ? KOLO_TYPE_DOUBLE : KOLO_TYPE_FLOAT;
    bool right = failed(together->kind->allreduce(together, there, count, type, KOLO_REDUCE_SUM), KOLO_COMM,
                        o->missing ? "replica 0 called allreduce of 100 floats, replica 1 allreduce of 100 doubles"
                                   : "replica 0 called allreduce of 100 floats, replica 1 allreduce of 0 floats");
    rig_ok(together->kind->allreduce(together, there, 100, KOLO_TYPE_FLOAT,
                                     KOLO_REDUCE_SUM)); /* the group still works */
    rig_ok(streams->synchronize(own));
    together->kind->close(together);
    streams->release(own, there);
    streams->close(&own);
    return right;
}

static void sums_that_differ_fail_on_every_member(void **state)
{
    (void)state;
    want_devices(3);
    for (int k = 0; k < 20; k++) run_order(&(order){.missing = k % 2}, 3, differing_member);
}

/* A sum that waited has failed: with what NCCL says, or because another member's watcher was told first. */
static bool was_lost(kolo_stream *own, const char *sentence)
{
    kolo_status status = streams->synchronize(own);
    kolo_failure failure = kolo_failure_take();
    bool right = status == KOLO_COMM && (strstr(failure.text, sentence) || strstr(failure.text, KOLO_COMM_CALLED_OFF));
    if (!right) print_error("wanted a failure, got %d: %s\n", (int)status, failure.text);
    return right;
}

/* NCCL itself finds out, at some time, that one is lost. */
static bool lost_member(kolo_comm *comm, void *argument)
{
    const order *o = argument;
    kolo_stream *own;
    kolo_comm *together;
    float *there;
    rig_ok(device_open_stream(comm->rank, &own));
    rig_ok(streams->open_comm(own, comm, &together));
    rig_ok(streams->allocate(own, 100 * sizeof *there, "a test", (void **)&there));
    if (comm->rank == o->missing) usleep(100000);
    kolo_status status = together->kind->allreduce(together, there, 100, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
    bool right = comm->rank == o->missing ? failed(status, KOLO_COMM, "NCCL: a sum over the group failed: unhandled")
                                          : was_lost(own, "NCCL lost a member of the group: remote process exited");
    together->kind->close(together);
    streams->release(own, there);
    streams->close(&own);
    return right;
}

static void errors_that_come_later_end_the_waiting(void **state)
{
    (void)state;
    if (!device_is_simulated()) skip();
    setenv("KOLO_SHIM_NCCL_LOST", "1", 1);
    run_order(&(order){.missing = 1, .apart = true}, 3, lost_member);
    unsetenv("KOLO_SHIM_NCCL_LOST");
}

/* One member's communicator is lost while that member is idle: nobody calls the others off but its watcher. */
static atomic_int ended;

static bool idle_member(kolo_comm *comm, void *argument)
{
    const order *o = argument;
    void (*fail_at)(long number, bool for_good);
    *(void **)&fail_at = device_symbol("kolo_shim_fail");
    kolo_stream *own;
    kolo_comm *together;
    float *there;
    rig_ok(device_open_stream(comm->rank, &own));
    rig_ok(streams->open_comm(own, comm, &together));
    rig_ok(streams->allocate(own, 100 * sizeof *there, "a test", (void **)&there));
    bool right = true;
    if (comm->rank == o->missing) {
        usleep(100000); /* all but the watchers are waiting now */
        fail_at(1, false);
        while (atomic_load(&ended) < comm->size - 1) usleep(1000);
    } else {
        rig_ok(together->kind->allreduce(together, there, 100, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
        right = was_lost(own, "NCCL lost a member of the group: unhandled cuda error");
        atomic_fetch_add(&ended, 1);
    }
    together->kind->close(together);
    streams->release(own, there);
    streams->close(&own);
    return right;
}

static void a_member_lost_while_idle_ends_the_waiting(void **state)
{
    (void)state;
    if (!device_is_simulated()) skip();
    for (int again = 0; again < 6; again++) { /* any of the three watchers may be the one */
        atomic_store(&ended, 0);
        run_order(&(order){.missing = again % 3, .apart = true}, 3, idle_member);
    }
}

/* NCCL may say that a sum is in progress, and give it to the stream later, from a thread of its own. */
static void sums_may_be_given_late(void **state)
{
    (void)state;
    if (!device_is_simulated()) skip();
    setenv("KOLO_SHIM_NCCL_LATE", "1", 1);
    members_sum(state);
    run_order(&(order){.missing = 1, .apart = true}, 3, waiting_member);
    unsetenv("KOLO_SHIM_NCCL_LATE");
}

int main(void)
{
    setenv("KOLO_SHIM_DEVICES", "4", 1);
    if (!device_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_sum),
        cmocka_unit_test(members_sum_on_second_streams),
        cmocka_unit_test(two_on_one_device_are_refused_alike),
        cmocka_unit_test(ranks_of_threads_sum),
        cmocka_unit_test(nobody_waits_for_one_that_failed),
        cmocka_unit_test(sums_that_differ_fail_on_every_member),
        cmocka_unit_test(errors_that_come_later_end_the_waiting),
        cmocka_unit_test(a_member_lost_while_idle_ends_the_waiting),
        cmocka_unit_test(sums_may_be_given_late),
    };
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    streams->close(&stream);
    return result;
}
