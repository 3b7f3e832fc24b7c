/* The tree of sums: one result whatever the order, the threads and the way nodes are handed on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "engine/reduction_tree.h"

#define WIDTH 5

static float microbatch_value(int64_t microbatch, int element)
{
    return (float)((microbatch * 7919 + element * 104729) % 1000) * 1e-3f +
           (microbatch % 3 == 0 ? 1e6f : 0); /* rounds a lot */
}

/* The tree written down as its definition: recursion over halves. */
static float expected(int level, int64_t index, int64_t microbatches, int element)
{
    int64_t first = index << level;
    if (level == 0) return microbatch_value(index, element);
    int64_t middle = first + ((int64_t)1 << (level - 1));
    float left = expected(level - 1, 2 * index, microbatches, element);
    return middle < microbatches ? left + expected(level - 1, 2 * index + 1, microbatches, element) : left;
}

static int depth_of(int64_t microbatches)
{
    int depth = 0;
    while (((int64_t)1 << depth) < microbatches) depth++;
    return depth;
}

static kolo_status add(const void *owner, float *to, const float *from)
{
    (void)owner;
    kolo_host_add(to, from, WIDTH);
    return KOLO_OK;
}

static void *allocate(const void *owner, size_t bytes)
{
    (void)owner;
    return kolo_host_allocate(bytes);
}

static void deallocate(const void *owner, void *memory)
{
    (void)owner;
    kolo_host_deallocate(memory);
}

static const kolo_reduction_memory plain = {allocate, deallocate, add, NULL};

static kolo_reduction *open_reduction(int64_t microbatches)
{
    kolo_reduction *reduction = NULL;
    assert_int_equal(kolo_reduction_open(WIDTH, plain, &reduction), KOLO_OK);
    kolo_reduction_begin(reduction, microbatches);
    return reduction;
}

static void insert_microbatch(kolo_reduction *reduction, int64_t microbatch)
{
    kolo_node node = {.index = microbatch, .totals = {.samples = 1, .loss = 0.5}};
    assert_int_equal(kolo_reduction_borrow(reduction, &node.gradient), KOLO_OK);
    for (int e = 0; e < WIDTH; e++) node.gradient[e] = microbatch_value(microbatch, e);
    assert_int_equal(kolo_reduction_insert(reduction, node), KOLO_OK);
}

static void check_root(kolo_reduction *reduction, int64_t microbatches)
{
    kolo_node nodes[KOLO_REDUCTION_NODES_MAX];
    assert_int_equal(kolo_reduction_take(reduction, nodes), 1);
    assert_float_equal(nodes[0].totals.samples, microbatches, 0);
    for (int e = 0; e < WIDTH; e++) {
        float wanted = expected(depth_of(microbatches), 0, microbatches, e);
        assert_memory_equal(&nodes[0].gradient[e], &wanted, sizeof wanted);
    }
    kolo_reduction_return(reduction, nodes[0].gradient);
}

static void any_order_gives_the_tree(void **state)
{
    (void)state;
    for (int64_t microbatches = 1; microbatches <= 70; microbatches++) {
        kolo_reduction *reduction = open_reduction(microbatches);
        int64_t step = microbatches % 2   ? 2
                       : microbatches % 3 ? 3
                       : microbatches % 5 ? 5
                                          : 7; /* prime to microbatches: visits each once */
        for (int64_t i = 0; i < microbatches; i++) insert_microbatch(reduction, i * step % microbatches);
        check_root(reduction, microbatches);
        kolo_reduction_close(&reduction);
    }
}

/* Devices add up their own runs, then hand on the rest. */
static void any_deal_gives_the_tree(void **state)
{
    (void)state;
    for (int64_t microbatches = 1; microbatches <= 40; microbatches++) {
        for (int devices = 1; devices <= 9; devices++) {
            kolo_reduction *merged = open_reduction(microbatches), *own = open_reduction(microbatches);
            for (int d = 0; d < devices; d++) {
                for (int64_t l = microbatches * d / devices; l < microbatches * (d + 1) / devices; l++)
                    insert_microbatch(own, l);
                kolo_node nodes[KOLO_REDUCTION_NODES_MAX];
                int count = kolo_reduction_take(own, nodes);
                for (int i = 0; i < count; i++) assert_int_equal(kolo_reduction_insert(merged, nodes[i]), KOLO_OK);
            }
            check_root(merged, microbatches);
            kolo_reduction_close(&merged);
            kolo_reduction_close(&own);
        }
    }
}

typedef struct work {
    kolo_reduction *reduction;
    atomic_llong next; /* microbatches are begun in order, as an engine's threads do */
    int64_t microbatches;
} work;

static void *insert_some(void *argument)
{
    work *shared = argument;
    for (int64_t microbatch; (microbatch = atomic_fetch_add(&shared->next, 1)) < shared->microbatches;)
        insert_microbatch(shared->reduction, microbatch);
    return NULL;
}

static void threads_give_the_tree(void **state)
{
    (void)state;
    int64_t microbatches = 1000;
    kolo_reduction *reduction = open_reduction(microbatches);
    pthread_t threads[4];
    work shared = {.reduction = reduction, .microbatches = microbatches};
    for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&threads[t], NULL, insert_some, &shared), 0);
    for (int t = 0; t < 4; t++) pthread_join(threads[t], NULL);
    check_root(reduction, microbatches);
    kolo_reduction_close(&reduction);
}

/* As if each of 400 threads were still computing the microbatch before one that is done. */
static void many_threads_may_be_at_work(void **state)
{
    (void)state;
    int64_t microbatches = 800;
    kolo_reduction *reduction = open_reduction(microbatches);
    for (int64_t m = 1; m < microbatches; m += 2) insert_microbatch(reduction, m);
    for (int64_t m = 0; m < microbatches; m += 2) insert_microbatch(reduction, m);
    check_root(reduction, microbatches);
    kolo_reduction_close(&reduction);
}

static int allocated;

static void *count_and_allocate(const void *owner, size_t bytes)
{
    (void)owner;
    allocated++;
    return kolo_host_allocate(bytes);
}

/* Twenty steps use the memory of the first. */
static void returned_memory_is_borrowed_again(void **state)
{
    (void)state;
    const kolo_reduction_memory counted = {count_and_allocate, deallocate, add, NULL};
    kolo_reduction *reduction = NULL;
    assert_int_equal(kolo_reduction_open(WIDTH, counted, &reduction), KOLO_OK);
    for (int step = 0; step < 20; step++) {
        kolo_reduction_begin(reduction, 7);
        for (int64_t microbatch = 0; microbatch < 7; microbatch++) insert_microbatch(reduction, microbatch);
    }
    assert_in_range(allocated, 1, 7);
    kolo_reduction_close(&reduction);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_gives_the_tree),
        cmocka_unit_test(any_deal_gives_the_tree),
        cmocka_unit_test(threads_give_the_tree),
        cmocka_unit_test(many_threads_may_be_at_work),
        cmocka_unit_test(returned_memory_is_borrowed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
