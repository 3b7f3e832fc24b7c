/* Strategies of a learner's own, which agree in other ways than by a sum of gradients: on a backend what they are on
 * reference, within rounding. */
#include "ext/core/small.h"

#include "ext/backend/tested.h"
#include "strategy/strategy.h"

#include <string.h>

#define WEIGHTS 1024
#define DEVICES 3
#define EPOCHS  3

static kolo_status three(const kolo_strategy *strategy, int *count)
{
    (void)strategy;
    *count = DEVICES;
    return KOLO_OK;
}

static kolo_status sum(kolo_replica *replica, float *values)
{
    kolo_comm *group = kolo_replica_comm(replica);
    return group->kind->allreduce(group, values, kolo_replica_count(replica), KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
}

/* Each learns by its own samples; then all take the mean of their weights. */
static kolo_status average_weights(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_update(replica));
    float *weights = kolo_replica_weights(replica);
    KOLO_TRY(sum(replica, weights));
    for (int64_t i = 0; i < kolo_replica_count(replica); i++) weights[i] /= DEVICES;
    return kolo_replica_pack(replica);
}

/* The strategy's own all-reduce, of a gradient that it cut off before. */
static kolo_status clip_and_sum(kolo_replica *replica, const kolo_batch *batch)
{
    float *gradient;
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_gradient(replica, &gradient));
    for (int64_t i = 0; i < kolo_replica_count(replica); i++) gradient[i] = fmaxf(-0.5f, fminf(0.5f, gradient[i]));
    KOLO_TRY(sum(replica, gradient));
    kolo_replica_totals(replica)->samples = (double)batch->samples;
    return kolo_replica_update(replica);
}

/* The sum of all, cut off by each of them alike. */
static kolo_status sum_and_clip(kolo_replica *replica, const kolo_batch *batch)
{
    float *gradient;
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_allreduce(replica));
    KOLO_TRY(kolo_replica_gradient(replica, &gradient));
    for (int64_t i = 0; i < kolo_replica_count(replica); i++) gradient[i] = fmaxf(-0.5f, fminf(0.5f, gradient[i]));
    return kolo_replica_update(replica);
}

/* What it is told of the batch's losses decides whether it is learnt from. */
static kolo_status skip_good_batches(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    if (!(kolo_replica_totals(replica)->samples <= (double)batch->samples)) return KOLO_INTERNAL;
    KOLO_TRY(kolo_replica_allreduce(replica));
    const kolo_totals *totals = kolo_replica_totals(replica);
    if (totals->samples != (double)batch->samples) return KOLO_INTERNAL;
    return totals->loss < 1.2 * totals->samples ? KOLO_OK : kolo_replica_update(replica);
}

typedef kolo_status step_function(kolo_replica *replica, const kolo_batch *batch);

typedef struct training {
    step_function *step;
    kolo_optimizer optimizer;
    kolo_precision precision;
    bool deterministic, totals_may_lag;
} training;

static double train(training t, const char *backend, float *weights)
{
    const kolo_strategy_kind own = {
        .name = "own", .replicas = three, .step = t.step, .totals_may_lag = t.totals_may_lag};
    kolo_data *data = small_data(90);
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model, .optimizer = t.optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                  .metrics = {KOLO_ACCURACY}, .strategy = kolo_strategy_of(&own),
                                  .precision = t.precision, .deterministic = t.deterministic, .backend = backend),
                     KOLO_OK);
    const kolo_history *history = kolo_fit(model, data, .epochs = EPOCHS, .batch_size = 37, .verbose = KOLO_NONE);
    assert_non_null(history);
    for (int e = 0; e < EPOCHS; e++) assert_int_equal(history->epoch[e].images, 90);
    double loss = history->epoch[EPOCHS - 1].loss;
    for (int64_t i = 0; i < kolo_count_params(model); i++) weights[i] = kolo_weight_get(model, 0).values[i];
    kolo_model_free(&model);
    kolo_data_free(&data);
    return loss;
}

static void compare(training t, double tolerance)
{
    float wanted[WEIGHTS] = {0}, got[WEIGHTS] = {0};
    double wanted_loss = train(t, "reference", wanted), loss = train(t, KOLO_TEST_BACKEND, got);
    assert_float_equal(loss, wanted_loss, tolerance);
    for (int i = 0; i < WEIGHTS; i++) assert_float_equal(got[i], wanted[i], tolerance);
}

static void learn(step_function *step)
{
    compare((training){.step = step, .optimizer = kolo_sgd(.learning_rate = 0.1, .momentum = 0.9)}, 1e-5);
    compare((training){.step = step, .optimizer = kolo_adam()}, 1e-4);
    compare((training){.step = step, .optimizer = kolo_sgd(.learning_rate = 0.1, .accumulate_steps = 2)}, 1e-5);
    compare((training){.step = step, .optimizer = kolo_sgd(.learning_rate = 0.1), .precision = KOLO_MIXED_FP16}, 2e-2);
}

static void weights_are_averaged(void **state)
{
    (void)state;
    learn(average_weights);
    compare((training){.step = average_weights, .optimizer = kolo_adam(), .totals_may_lag = true}, 1e-4);
    compare((training){.step = average_weights,
                       .optimizer = kolo_sgd(.learning_rate = 0.1),
                       .precision = KOLO_MIXED_FP16,
                       .totals_may_lag = true},
            2e-2);
}

static void gradients_are_changed(void **state)
{
    (void)state;
    learn(clip_and_sum);
    learn(sum_and_clip);
    compare((training){.step = sum_and_clip, .optimizer = kolo_adam(), .totals_may_lag = true}, 1e-4);
}

static void losses_are_looked_at(void **state)
{
    (void)state;
    learn(skip_good_batches);
    compare((training){.step = skip_good_batches, .optimizer = kolo_adam(), .deterministic = true}, 1e-4);
}

static void what_a_kind_lacks_is_a_sentence(void **state)
{
    (void)state;
    kolo_model *model = small_model();
    const kolo_strategy_kind no_step = {.name = "own", .replicas = three};
    assert_int_not_equal(kolo_compile(model, .strategy = kolo_strategy_of(&no_step)), KOLO_OK);
    assert_non_null(strstr(kolo_last_error().text, "strategy own: wanted a kolo_strategy_kind with a .step, got NULL"));
    kolo_clear_error();
    const kolo_strategy_kind no_replicas = {.name = "own", .step = average_weights};
    assert_int_not_equal(kolo_compile(model, .strategy = kolo_strategy_of(&no_replicas)), KOLO_OK);
    assert_non_null(strstr(kolo_last_error().text,
                           "strategy own: wanted a kolo_strategy_kind with a .replicas, got NULL"));
    kolo_clear_error();
    kolo_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_averaged),
        cmocka_unit_test(gradients_are_changed),
        cmocka_unit_test(losses_are_looked_at),
        cmocka_unit_test(what_a_kind_lacks_is_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
