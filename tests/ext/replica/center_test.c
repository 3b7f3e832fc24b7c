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

static kolo_center_parts *open_parts(const kolo_strategy_kind *kind)
{
    static const kolo_strategy strategy;
    static const kolo_part_range whole = {.end_parameter = 1, .end = COUNT};
    static const kolo_part_range ranges[] = {{.end_parameter = 1, .end = 1},
                                             {.first_parameter = 1, .end_parameter = 2, .first = 1, .end = COUNT}};
    kolo_parts_args args = {.kind = kind, .strategy = &strategy, .workers = 2, .count = COUNT};
    args.ranges = kind->exchange_all ? &whole : ranges;
    args.parts = args.end = kind->exchange_all ? 1 : 2;
    kolo_center_parts *parts;
    assert_int_equal(kolo_center_parts_open(&args, &parts), KOLO_OK);
    return parts;
}

static kolo_center_parts *all_parts; /* of the centre that open_center() has opened */

static kolo_center *open_center(const kolo_strategy_kind *kind, const kolo_turns *given, int steps)
{
    const float zeros[COUNT] = {0};
    kolo_center *center;
    all_parts = open_parts(kind);
    assert_int_equal(kolo_center_open(all_parts, &center), KOLO_OK);
    kolo_center_set(center, zeros, 0);
    kolo_center_begin(center, &(kolo_center_epoch){.steps = steps, .window = 1, .turns = given});
    return center;
}

static void close_center(kolo_center *center)
{
    kolo_center_close(&center);
    kolo_center_parts_close(&all_parts);
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
    close_center(center);
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
    kolo_totals totals; /* the batch counts once */
    assert_int_equal(kolo_center_trained(center, &totals), 1);
    assert_true(totals.samples == 1 && totals.loss == 2);
    assert_int_equal(kolo_center_next(center, 1, 2, SOON, &task), KOLO_OK); /* of an epoch that has not begun */
    assert_int_equal(task.kind, KOLO_TASK_WAIT);
    close_center(center);
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

/* ---------------------------------------------------------------- parts that are visited by workers themselves */

static kolo_admission admit(kolo_center *center, int worker)
{
    kolo_admission admission;
    train(center, worker);
    assert_int_equal(kolo_center_admit(center, worker, 1, SOON, &admission), KOLO_OK);
    assert_true(admission.done && admission.comes);
    return admission;
}

static bool exchange_part(int part, const kolo_admission *admission, int worker, float *weights)
{
    bool done;
    const kolo_offer offer = {.weights = weights};
    assert_int_equal(kolo_center_parts_exchange(all_parts, part, &admission->ticket, worker, 1, &offer, SOON, &done),
                     KOLO_OK);
    return done;
}

/* Worker 0 dies between the two parts: worker 1 waits for it at the second one until it is known to be gone. */
static void a_part_leaves_out_a_worker_that_is_gone(void **state)
{
    (void)state;
    float one[COUNT] = {1, 1, 1, 1}, ten[COUNT] = {10, 10, 10, 10}, got[COUNT];
    kolo_center *center = open_center(&in_turn, NULL, 2);
    kolo_admission first = admit(center, 0), second = admit(center, 1);
    assert_false(exchange_part(0, &second, 1, ten));
    assert_true(exchange_part(0, &first, 0, one));
    assert_true(exchange_part(0, &second, 1, ten));
    assert_false(exchange_part(1, &second, 1, ten));
    kolo_center_lose(center, 0);
    assert_true(exchange_part(1, &second, 1, ten));
    kolo_center_exchanged(center, 1);
    assert_int_equal(kolo_center_finish(center), KOLO_OK);
    kolo_center_get(center, got);
    assert_true(got[0] == 11 && got[1] == 10 && got[COUNT - 1] == 10);
    assert_int_equal(kolo_center_trained(center, NULL), 2); /* a part of what worker 0 has learnt is there */
    close_center(center);
}

/* A ticket of an epoch that has not begun at the part waits, one of an epoch that is over fails. */
static void a_ticket_is_for_its_epoch(void **state)
{
    (void)state;
    bool done;
    float one[COUNT] = {1, 1, 1, 1};
    const kolo_offer offer = {.weights = one};
    kolo_ticket ticket = {.epoch = 1};
    kolo_center_parts *parts = open_parts(&in_turn);
    assert_int_equal(kolo_center_parts_exchange(parts, 0, &ticket, 0, 1, &offer, SOON, &done), KOLO_OK);
    assert_false(done);
    kolo_center_parts_begin(parts, 1);
    assert_int_equal(kolo_center_parts_exchange(parts, 0, &ticket, 0, 1, &offer, SOON, &done), KOLO_OK);
    assert_true(done);
    kolo_center_parts_begin(parts, 2);
    assert_int_equal(kolo_center_parts_exchange(parts, 1, &ticket, 0, 1, &offer, SOON, &done), KOLO_COMM);
    kolo_failure_take();
    kolo_center_parts_close(&parts);
}

static void check_sentence(void)
{
    kolo_failure failure = kolo_failure_take();
    assert_non_null(strstr(failure.text, "the server on rank 3, which keeps a part of the weights, is lost"));
}

static void a_lost_server_fails_all_epochs(void **state)
{
    (void)state;
    kolo_task task;
    kolo_center *center = open_center(&in_turn, NULL, 2);
    train(center, 0);
    assert_int_equal(kolo_center_check(center), KOLO_OK);
    kolo_center_lose_server(center, 3);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(kolo_center_check(center), KOLO_COMM);
        check_sentence();
        assert_int_equal(kolo_center_next(center, 1, 1 + again, SOON, &task), KOLO_COMM);
        check_sentence();
        kolo_center_begin(center, &(kolo_center_epoch){.steps = 2, .window = 1});
    }
    close_center(center);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_leaves_out_a_worker_that_is_gone),
        cmocka_unit_test(a_ticket_is_for_its_epoch),
        cmocka_unit_test(a_lost_server_fails_all_epochs),
        cmocka_unit_test(a_worker_that_has_to_wait_for_others_is_told_so),
        cmocka_unit_test(an_exchange_before_its_turn_is_made_again),
        cmocka_unit_test(an_exchange_of_all_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
