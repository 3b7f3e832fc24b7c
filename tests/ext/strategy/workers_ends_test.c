/* Workers that are slow, stop or fail; and what happens at the same time. */
#include "ext/strategy/workers.h"

/* A training of a learner's own rule, whose workers wait, stop or fail as a test wants. */
static struct {
    int slow, fails, stops; /* the numbers of workers; -1: none */
    atomic_int exchanges[WORKERS];
    bool awaits; /* the others train on late batches only when the one that fails or stops has come to one */
    atomic_bool met; /* the worker has failed, or another one follows */
} own;

static kolo_status three(const kolo_strategy *strategy, int *count)
{
    (void)strategy;
    *count = WORKERS;
    return KOLO_OK;
}

static int all_exchanges(void)
{
    return own.exchanges[0] + own.exchanges[1] + own.exchanges[2];
}

/* The slow worker waits within its batch until the others have trained on all other batches of the epoch. If it held
 * anybody up, this would never come. */
static void wait_for_the_others(void)
{
    int batches = SAMPLES / 2, wanted = (all_exchanges() / batches + 1) * batches - 1;
    for (int i = 0; all_exchanges() < wanted && i < 60000; i++) usleep(1000);
}

static kolo_status own_step(kolo_replica *replica, const kolo_batch *batch)
{
    int number = kolo_worker_number(replica), odd = own.fails >= 0 ? own.fails : own.stops;
    bool late = batch->number > 4;
    if (number == own.slow) wait_for_the_others();
    for (int i = 0; late && own.awaits && number != odd && !own.met && i < 60000; i++) usleep(1000);
    if (late && number == odd) own.met = true;
    if (late && number == own.fails) return kolo_fail(KOLO_INVALID, "worker %d lost its way", number);
    if (late && number == own.stops) kolo_request_stop();
    return kolo_worker_step(replica, batch);
}

static void own_exchange(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    (void)strategy;
    atomic_fetch_add(&own.exchanges[mine->number], 1);
    for (int64_t i = 0; i < mine->count; i++) mine->center[i] += (mine->weights[i] - mine->start[i]) / WORKERS;
    memcpy(mine->weights, mine->center, (size_t)mine->count * sizeof(float));
}

static void own_exchange_all(const kolo_strategy *strategy, const kolo_exchange *workers, int count)
{
    (void)strategy;
    (void)count;
    for (int64_t i = 0; i < workers->count; i++) workers->center[i] = workers->weights[i];
}

static const kolo_strategy_kind own_kind = {
    .name = "own", .replicas = three, .step = own_step, .exchange = own_exchange, .window = 1};
static const kolo_strategy_kind own_kind_at_once = {
    .name = "own", .replicas = three, .step = own_step, .exchange_all = own_exchange_all, .window = 1};

static const kolo_history *train_own(kolo_model *model, kolo_data *data, const kolo_strategy_kind *kind, bool in_turn)
{
    memset(own.exchanges, 0, sizeof own.exchanges);
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                  .strategy = kolo_strategy_of(kind), .deterministic = in_turn),
                     KOLO_OK);
    return kolo_fit(model, data, .epochs = 2, .batch_size = 2, .verbose = KOLO_NONE);
}

/* 45 batches an epoch: the slow worker takes at most one of each epoch, and the others take the rest. */
static void a_straggler_holds_up_nobody(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    own.slow = 1, own.fails = own.stops = -1;
    const kolo_history *history = train_own(model, data, &own_kind, false);
    assert_non_null(history);
    assert_int_equal(history->epoch[1].images, SAMPLES);
    assert_int_equal(all_exchanges(), 90);
    assert_true(own.exchanges[1] <= 2);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* Each worker stays in its second part until another one has begun to exchange with the first; once is
 * enough, since no worker follows the last exchanges of an epoch. */
static void wait_for_company(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    static _Thread_local const float *first;
    static _Thread_local int seen;
    (void)strategy;
    if (!first) first = mine->weights;
    if (mine->weights == first) seen = atomic_fetch_add(&own.exchanges[0], 1) + 1;
    for (int i = 0; mine->weights != first && !own.met && i < 60000; i++) {
        own.met = own.exchanges[0] > seen;
        usleep(1000);
    }
}

static const kolo_strategy_kind company_kind = {
    .name = "company", .replicas = three, .step = kolo_worker_step, .exchange = wait_for_company, .window = 1};

static void workers_exchange_with_several_servers_at_once(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    own.slow = own.fails = own.stops = -1;
    own.met = false;
    own.exchanges[0] = 0;
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .strategy = kolo_strategy_of(&company_kind, .servers = 2)),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, data, .batch_size = 2, .verbose = KOLO_NONE));
    assert_true(own.met);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void a_failed_worker_ends_all_with_its_sentence(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    own.slow = own.stops = -1;
    for (int i = 0; i < 9; i++) {
        own.fails = i % 3;
        own.met = false;
        own.awaits = i < 6; /* or the others may take all batches; the last three come to each exchange together */
        assert_null(train_own(model, data, i < 6 ? &own_kind : &own_kind_at_once, i < 3));
        assert_non_null(strstr(kolo_last_error().text, "lost its way"));
        kolo_clear_error();
        own.fails = -1;
        own.awaits = false;
        assert_non_null(train_own(model, data, &own_kind, false)); /* the model can be trained again */
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void a_requested_stop_ends_all(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    own.slow = own.fails = -1;
    for (int i = 0; i < 9; i++) {
        own.stops = i % 3;
        own.met = false;
        own.awaits = i < 6; /* as above */
        const kolo_history *history = train_own(model, data, i < 6 ? &own_kind : &own_kind_at_once, i < 3);
        assert_non_null(history);
        assert_true(history->stopped);
        assert_true(history->epochs < 2);
        kolo_clear_error();
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_straggler_holds_up_nobody),
        cmocka_unit_test(workers_exchange_with_several_servers_at_once),
        cmocka_unit_test(a_failed_worker_ends_all_with_its_sentence),
        cmocka_unit_test(a_requested_stop_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
