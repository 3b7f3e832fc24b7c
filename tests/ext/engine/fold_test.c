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
#include "engine/fold.h"

#define WIDTH 5

static float leaf_value(int64_t leaf, int element)
{
    return (float)((leaf * 7919 + element * 104729) % 1000) * 1e-3f + (leaf % 3 == 0 ? 1e6f : 0); /* rounds a lot */
}

/* The tree written down as its definition: recursion over halves. */
static float expected(int level, int64_t index, int64_t leaves, int element)
{
    int64_t first = index << level;
    if (level == 0) return leaf_value(index, element);
    int64_t middle = first + ((int64_t)1 << (level - 1));
    float left = expected(level - 1, 2 * index, leaves, element);
    return middle < leaves ? left + expected(level - 1, 2 * index + 1, leaves, element) : left;
}

static int depth_of(int64_t leaves)
{
    int depth = 0;
    while (((int64_t)1 << depth) < leaves) depth++;
    return depth;
}

static void add(const void *whose, float *to, const float *from)
{
    (void)whose;
    kolo_host_add(to, from, WIDTH);
}

static void *allocate(const void *whose, size_t bytes)
{
    (void)whose;
    return kolo_host_allocate(bytes);
}

static void deallocate(const void *whose, void *memory)
{
    (void)whose;
    kolo_host_deallocate(memory);
}

static const kolo_fold_memory plain = {allocate, deallocate, add, NULL};

static kolo_fold *open_fold(int64_t leaves)
{
    kolo_fold *fold = NULL;
    assert_int_equal(kolo_fold_open(WIDTH, plain, &fold), KOLO_OK);
    kolo_fold_begin(fold, leaves);
    return fold;
}

static void insert_leaf(kolo_fold *fold, int64_t leaf)
{
    kolo_node node = {.index = leaf, .totals = {.samples = 1, .loss = 0.5}};
    assert_int_equal(kolo_fold_borrow(fold, &node.gradient), KOLO_OK);
    for (int e = 0; e < WIDTH; e++) node.gradient[e] = leaf_value(leaf, e);
    assert_int_equal(kolo_fold_insert(fold, node), KOLO_OK);
}

static void check_root(kolo_fold *fold, int64_t leaves)
{
    kolo_node nodes[KOLO_FOLD_MOST];
    assert_int_equal(kolo_fold_take(fold, nodes), 1);
    assert_float_equal(nodes[0].totals.samples, leaves, 0);
    for (int e = 0; e < WIDTH; e++) {
        float wanted = expected(depth_of(leaves), 0, leaves, e);
        assert_memory_equal(&nodes[0].gradient[e], &wanted, sizeof wanted);
    }
    kolo_fold_return(fold, nodes[0].gradient);
}

static void any_order_gives_the_tree(void **state)
{
    (void)state;
    for (int64_t leaves = 1; leaves <= 70; leaves++) {
        kolo_fold *fold = open_fold(leaves);
        int64_t step = leaves % 2 ? 2 : leaves % 3 ? 3 : leaves % 5 ? 5 : 7; /* prime to leaves: visits each once */
        for (int64_t i = 0; i < leaves; i++) insert_leaf(fold, i * step % leaves);
        check_root(fold, leaves);
        kolo_fold_close(&fold);
    }
}

/* Devices fold their own runs, then hand the rest on. */
static void any_deal_gives_the_tree(void **state)
{
    (void)state;
    for (int64_t leaves = 1; leaves <= 40; leaves++) {
        for (int devices = 1; devices <= 9; devices++) {
            kolo_fold *meeting = open_fold(leaves), *own = open_fold(leaves);
            for (int d = 0; d < devices; d++) {
                for (int64_t l = leaves * d / devices; l < leaves * (d + 1) / devices; l++) insert_leaf(own, l);
                kolo_node nodes[KOLO_FOLD_MOST];
                int count = kolo_fold_take(own, nodes);
                for (int i = 0; i < count; i++) assert_int_equal(kolo_fold_insert(meeting, nodes[i]), KOLO_OK);
            }
            check_root(meeting, leaves);
            kolo_fold_close(&meeting);
            kolo_fold_close(&own);
        }
    }
}

typedef struct work {
    kolo_fold *fold;
    atomic_llong next; /* leaves are begun in order, as an engine's threads do */
    int64_t leaves;
} work;

static void *insert_some(void *argument)
{
    work *shared = argument;
    for (int64_t leaf; (leaf = atomic_fetch_add(&shared->next, 1)) < shared->leaves;) insert_leaf(shared->fold, leaf);
    return NULL;
}

static void threads_give_the_tree(void **state)
{
    (void)state;
    int64_t leaves = 1000;
    kolo_fold *fold = open_fold(leaves);
    pthread_t threads[4];
    work shared = {.fold = fold, .leaves = leaves};
    for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&threads[t], NULL, insert_some, &shared), 0);
    for (int t = 0; t < 4; t++) pthread_join(threads[t], NULL);
    check_root(fold, leaves);
    kolo_fold_close(&fold);
}

static int allocated;

static void *count_and_allocate(const void *whose, size_t bytes)
{
    (void)whose;
    allocated++;
    return kolo_host_allocate(bytes);
}

/* Nodes of one fold that end up in another: step after step in the same memory. */
static void what_is_handed_on_is_borrowed_again(void **state)
{
    (void)state;
    const kolo_fold_memory counted = {count_and_allocate, deallocate, add, NULL};
    kolo_fold *whole = NULL, *part = NULL;
    assert_int_equal(kolo_fold_open(WIDTH, counted, &whole), KOLO_OK);
    assert_int_equal(kolo_fold_open(WIDTH, counted, &part), KOLO_OK);
    kolo_fold_borrow_from(part, whole);
    for (int step = 0; step < 20; step++) {
        kolo_node nodes[KOLO_FOLD_MOST];
        kolo_fold_begin(part, 7);
        kolo_fold_begin(whole, 7);
        for (int64_t leaf = 0; leaf < 7; leaf++) insert_leaf(part, leaf);
        int count = kolo_fold_take(part, nodes);
        for (int i = 0; i < count; i++) assert_int_equal(kolo_fold_insert(whole, nodes[i]), KOLO_OK);
    }
    assert_in_range(allocated, 1, 7);
    kolo_fold_close(&part);
    kolo_fold_close(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_gives_the_tree),
        cmocka_unit_test(any_deal_gives_the_tree),
        cmocka_unit_test(threads_give_the_tree),
        cmocka_unit_test(what_is_handed_on_is_borrowed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
