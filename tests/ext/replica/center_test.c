/* The centre: calls that may not wait for ever say so, and can be made again. */
#include "ext/core/small.h"

#include <pthread.h>

#include "replica/center.h"

#define COUNT 4
#define SOON  0.02 /* seconds */

static void sum_all(const kolo_strategy *strategy, const kolo_exchange *workers, int count)
{
    (void)strategy;
    for (int w = 0; w < count; w++)
        for (int i = 0; i < COUNT; i++) workers->center[i] += workers[w].weights[i];
}

static void add_mine(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    (void)strategy;
    for (int64_t i = 0; i < mine->count; i++) mine->center[i] += mine->weights[i];
}

static const kolo_strategy_kind at_once = {.name = "at_once", .exchange_all = sum_all, .window = 1};
static const kolo_strategy_kind in_turn = {.name = "in_turn", .exchange = add_mine, .window = 1};
static int batches[] = {0, 1};
static kolo_turn order[] = {{.worker = 0, .batches = 1, .batch = &batches[0]},
                            {.worker = 1, .batches = 1, .batch = &batches[1]}};
static const kolo_turns turns = {.turn = order, .count = 2};

static kolo_center *open_center(const kolo_strategy_kind *kind, const kolo_turns *given, int steps)
{
    static const kolo_strategy strategy;
    const float zeros[COUNT] = {0};
    static const kolo_part_range ranges[] = {{.end_parameter = 1, .end = 1},
                                             {.first_parameter = 1, .end_parameter = 2, .first = 1, .end = COUNT}};
    kolo_center_args args = {.kind = kind, .strategy = &strategy, .workers = 2, .count = COUNT, .ranges = ranges};
    const kolo_part_range whole = {.end_parameter = 1, .end = COUNT};
    args.parts = kind->exchange_all ? 1 : 2;
    if (kind->exchange_all) args.ranges = &whole;
    kolo_center *center;
    assert_int_equal(kolo_center_open(&args, &center), KOLO_OK);
    kolo_center_set(center, zeros, 0);
    kolo_center_begin(center, &(kolo_center_epoch){.steps = steps, .window = 1, .turns = given});
    return center;
}

static void train(kolo_center *center, int worker)
{
    kolo_task task;
    assert_int_equal(kolo_center_next(center, worker, 1, SOON, &task), KOLO_OK);
    assert_int_equal(task.kind, KOLO_TASK_TRAIN);
    kolo_center_report(center, worker, 1, &(kolo_totals){.samples = 1, .loss = 1 + worker});
}

static bool exchange(kolo_center *center, int worker, float *weights, double seconds)
{
    bool done;
    const kolo_offer offer = {.weights = weights};
    assert_int_equal(kolo_center_exchange(center, worker, &offer, seconds, &done), KOLO_OK);
    return done;
}

static void check_sum(kolo_center *center, float wanted)
{
    float weights[COUNT];
    kolo_center_get(center, weights);
    for (int i = 0; i < COUNT; i++) assert_true(weights[i] == wanted);
    kolo_center_close(&center);
}

static void a_worker_that_has_to_wait_for_others_is_told_so(void **state)
{
    (void)state;
    kolo_center *center = open_center(&in_turn, NULL, 1);
    kolo_task task;
    train(center, 0); /* the only batch: it comes back if worker 0 is lost, so worker 1 waits */
    for (int again = 0; again < 2; again++) {
        assert_int_equal(kolo_center_next(center, 1, 1, SOON, &task), KOLO_OK);
        assert_int_equal(task.kind, KOLO_TASK_WAIT);
    }
    kolo_center_lose(center, 0);
    train(center, 1);
    assert_int_equal(kolo_center_next(center, 1, 2, SOON, &task), KOLO_OK); /* of an epoch that has not begun */
    assert_int_equal(task.kind, KOLO_TASK_WAIT);
    kolo_center_close(&center);
}

static void an_exchange_before_its_turn_is_made_again(void **state)
{
    (void)state;
    float one[COUNT] = {1, 1, 1, 1}, ten[COUNT] = {10, 10, 10, 10};
    kolo_center *center = open_center(&in_turn, &turns, 2);
    train(center, 0);
    train(center, 1);
    assert_false(exchange(center, 1, ten, SOON));
    assert_false(exchange(center, 1, ten, SOON));
    assert_true(exchange(center, 0, one, SOON));
    assert_true(exchange(center, 1, ten, SOON));
    check_sum(center, 11);
}

typedef struct other {
    kolo_center *center;
    float weights[COUNT];
} other;

static void *exchange_other(void *argument)
{
    other *second = argument;
    assert_true(exchange(second->center, 1, second->weights, 0));
    return NULL;
}

/* A worker that went away from an exchange of all has not come: the other one waits until it comes again. */
static void an_exchange_of_all_is_made_again(void **state)
{
    (void)state;
    float one[COUNT] = {1, 1, 1, 1};
    other second = {.center = open_center(&at_once, &turns, 2), .weights = {10, 10, 10, 10}};
    pthread_t thread;
    train(second.center, 0);
    train(second.center, 1);
    assert_false(exchange(second.center, 0, one, SOON));
    assert_false(exchange(second.center, 1, second.weights, SOON));
    assert_int_equal(pthread_create(&thread, NULL, exchange_other, &second), 0);
    while (!exchange(second.center, 0, one, SOON)) {}
    pthread_join(thread, NULL);
    kolo_totals totals;
    kolo_center_worker(second.center, 1, NULL, &totals);
    assert_true(totals.loss == 2 && totals.samples == 1);
    check_sum(second.center, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_has_to_wait_for_others_is_told_so),
        cmocka_unit_test(an_exchange_before_its_turn_is_made_again),
        cmocka_unit_test(an_exchange_of_all_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
