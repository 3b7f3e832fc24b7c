/* simulated.c: a comm in front of another one with a modelled clock, over groups of threads. */
#include "threads.h"

#include "comm/simulated.h"
#include "link/link_model.h"

typedef struct group {
    int size;
    kolo_comm *below[MEMBERS_MAX], *comms[MEMBERS_MAX];
} group;

static void group_open(group *g, int size)
{
    g->size = size;
    assert_int_equal(kolo_comm_local_open(size, g->below), KOLO_OK);
    for (int i = 0; i < size; i++) {
        assert_int_equal(kolo_comm_simulated_open(g->below[i], &g->comms[i]), KOLO_OK);
        assert_int_equal(g->comms[i]->rank, i);
        assert_int_equal(g->comms[i]->size, size);
    }
}

static void group_close(group *g)
{
    for (int i = 0; i < g->size; i++) g->comms[i]->kind->close(g->comms[i]);
    for (int i = 0; i < g->size; i++) g->below[i]->kind->close(g->below[i]);
}

static void simulate(const group *g, const kolo_link_model *model, kolo_algorithm algorithm)
{
    for (int i = 0; i < g->size; i++)
        assert_int_equal(kolo_comm_simulate(g->comms[i],
                                            &(kolo_simulate_links_args){.model = model, .algorithm = algorithm}),
                         KOLO_OK);
}

static bool all_operations(kolo_comm *comm, void *argument)
{
    (void)argument;
    return check_comm(comm, 11, 2, 5000);
}

/* Whether a clock runs or not, the comm is as any other. */
static void does_everything_of_a_comm(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-1v");
    for (int size = 1; size <= 4; size++) {
        group g;
        group_open(&g, size);
        run_members(size, g.comms, all_operations, NULL);
        assert_int_equal(kolo_comm_clock(g.comms[0]).collectives, 0);
        simulate(&g, model, KOLO_ALGORITHM_FASTEST);
        run_members(size, g.comms, all_operations, NULL);
        assert_true(kolo_comm_clock(g.comms[0]).collectives > 0);
        group_close(&g);
    }
    kolo_link_model_free(&model);
}

enum { COUNT = 3001 };
typedef struct sums {
    float values[MEMBERS_MAX][COUNT];
} sums;

static bool sum(kolo_comm *comm, void *argument)
{
    float *values = ((sums *)argument)->values[comm->rank];
    for (int i = 0; i < COUNT; i++) values[i] = (float)value(3, comm->rank, i);
    return comm->kind->allreduce(comm, values, COUNT, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_OK;
}

static void sums_have_the_bits_of_the_comm_below(void **state)
{
    (void)state;
    static sums with, without;
    kolo_link_model *model = kolo_link_model_open("pcie-8");
    group g;
    group_open(&g, 5);
    simulate(&g, model, KOLO_ALGORITHM_TREE);
    run_members(5, g.comms, sum, &with);
    run_members(5, g.below, sum, &without);
    assert_memory_equal(&with, &without, sizeof with);
    group_close(&g);
    kolo_link_model_free(&model);
}

/* One of each, the sizes so that none is another's. */
static bool one_of_each(kolo_comm *comm, void *argument)
{
    (void)argument;
    const kolo_comm_kind *kind = comm->kind;
    static _Thread_local char data[4000], all[4 * 4000];
    const size_t bytes[4] = {100, 200, 300, 400}, offsets[4] = {0, 100, 300, 600}, same[4] = {8, 8, 8, 8},
                 places[4] = {0, 8, 16, 24};
    double values[125] = {0};
    return kind->allreduce(comm, values, 125, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM) == KOLO_OK &&
           kind->broadcast(comm, data, 4000, 1) == KOLO_OK && kind->allgather(comm, data, 500, all) == KOLO_OK &&
           kind->allgatherv(comm, data, all, bytes, offsets) == KOLO_OK && kind->barrier(comm) == KOLO_OK &&
           kind->alltoallv(comm, data, same, places, all, same, places) == KOLO_OK;
}

static void the_clock_adds_up_the_models_times(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("dgx-1v");
    group g;
    group_open(&g, 4);
    simulate(&g, model, KOLO_ALGORITHM_RING);
    run_members(4, g.comms, one_of_each, NULL);
    double wanted = kolo_link_model_time(model, 1000, .devices = 4, .algorithm = KOLO_ALGORITHM_RING).seconds +
                    kolo_link_model_time(model, 4000, .devices = 4, .operation = KOLO_MODELLED_BROADCAST).seconds +
                    kolo_link_model_time(model, 2000, .devices = 4, .operation = KOLO_MODELLED_ALLGATHER).seconds +
                    kolo_link_model_time(model, 1000, .devices = 4, .operation = KOLO_MODELLED_ALLGATHER).seconds +
                    kolo_link_model_time(model, 0, .devices = 4, .algorithm = KOLO_ALGORITHM_RING).seconds;
    for (int i = 0; i < 4; i++) {
        kolo_modelled_clock clock = kolo_comm_clock(g.comms[i]);
        assert_true(fabs(clock.seconds - wanted) <= 1e-12 * wanted); /* the order of five additions */
        assert_int_equal(clock.collectives, 5);
        assert_true(clock.bytes == 1000 + 4000 + 2000 + 1000);
        assert_int_equal(clock.unmodelled, 1);
    }
    simulate(&g, model, KOLO_ALGORITHM_RING);
    assert_true(kolo_comm_clock(g.comms[2]).seconds == 0);
    simulate(&g, NULL, KOLO_ALGORITHM_FASTEST);
    run_members(4, g.comms, one_of_each, NULL);
    assert_true(kolo_comm_clock(g.comms[2]).collectives == 0 && kolo_comm_clock(g.comms[2]).unmodelled == 0);
    group_close(&g);
    kolo_link_model_free(&model);
}

static bool many_sizes(kolo_comm *comm, void *argument)
{
    double *wanted = argument;
    char data[300] = {0};
    for (int round = 0; round < 2; round++)
        for (int bytes = 0; bytes < 300; bytes += 3) {
            if (comm->kind->broadcast(comm, data, (size_t)bytes, 0) != KOLO_OK) return false;
            if (comm->rank == 0) wanted[0] += wanted[1 + bytes / 3];
        }
    return true;
}

/* More sizes than times are kept. */
static void times_are_kept_for_few_sizes(void **state)
{
    (void)state;
    static double wanted[101];
    kolo_link_model *model = kolo_link_model_open("pcie-4");
    group g;
    group_open(&g, 3);
    simulate(&g, model, KOLO_ALGORITHM_FASTEST);
    for (int i = 0; i < 100; i++)
        wanted[1 + i] = kolo_link_model_time(model, 3 * i, .devices = 3, .operation = KOLO_MODELLED_BROADCAST).seconds;
    run_members(3, g.comms, many_sizes, wanted);
    assert_true(fabs(kolo_comm_clock(g.comms[1]).seconds - wanted[0]) <= 1e-12 * wanted[0]);
    group_close(&g);
    kolo_link_model_free(&model);
}

static void a_model_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    kolo_link_model *model = kolo_link_model_open("pcie-4");
    group g;
    group_open(&g, 5);
    assert_int_equal(kolo_comm_simulate(g.comms[0], &(kolo_simulate_links_args){.model = model}), KOLO_INVALID);
    assert_non_null(strstr(kolo_failure_take().text, "wanted 1 to 4 of pcie-4, got 5"));
    group_close(&g);
    group_open(&g, 2);
    assert_int_equal(kolo_comm_simulate(g.comms[0],
                                        &(kolo_simulate_links_args){.model = model,
                                                                    .algorithm = KOLO_ALGORITHM_HIERARCHICAL}),
                     KOLO_INVALID);
    assert_non_null(strstr(kolo_failure_take().text, "wanted several hosts for hierarchical"));
    group_close(&g);
    kolo_link_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_everything_of_a_comm),
        cmocka_unit_test(sums_have_the_bits_of_the_comm_below),
        cmocka_unit_test(the_clock_adds_up_the_models_times),
        cmocka_unit_test(times_are_kept_for_few_sizes),
        cmocka_unit_test(a_model_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
