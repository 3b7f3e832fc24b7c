/* A strategy of a learner's own that forgets a part: a sentence instead of a training that goes wrong without a word.
 */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "strategy/strategy.h"

static kolo_status two(const kolo_strategy *strategy, int *count)
{
    (void)strategy;
    *count = 2;
    return KOLO_OK;
}

static kolo_weight_placement shared(const kolo_strategy *strategy)
{
    (void)strategy;
    return KOLO_WEIGHTS_SHARED;
}

static bool trains(const kolo_strategy_kind *kind)
{
    kolo_data *data = small_data(20);
    kolo_model *model = small_model();
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = kolo_strategy_of(kind));
    bool trained = !kolo_failed() && kolo_fit(model, data, .batch_size = 10, .verbose = KOLO_NONE);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return trained;
}

static void refuse(const kolo_strategy_kind *kind, const char *sentence)
{
    assert_false(trains(kind));
    const char *text = kolo_last_error().text;
    if (!strstr(text, sentence)) fail_msg("wanted \"%s\" in: %s", sentence, text);
    kolo_clear_error();
}

/* ---------------------------------------------------------------- steps */

static kolo_status compute_nothing(kolo_replica *replica, const kolo_batch *batch)
{
    (void)replica, (void)batch;
    return KOLO_OK;
}

static kolo_status reduce_nothing(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    return kolo_replica_update(replica);
}

static kolo_status update_nothing(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    return kolo_replica_allreduce(replica);
}

static kolo_status look_at_gradient(kolo_replica *replica, const kolo_batch *batch)
{
    float *gradient;
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_gradient(replica, &gradient));
    return kolo_replica_update(replica);
}

static kolo_status pack_nothing(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_update(replica));
    kolo_replica_weights(replica)[0] += 1;
    return KOLO_OK;
}

static kolo_status look_at_weights(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_allreduce(replica));
    KOLO_TRY(kolo_replica_update(replica));
    return isfinite(kolo_replica_weights(replica)[0]) ? KOLO_OK : KOLO_INTERNAL;
}

static void a_part_of_a_step_is_missed(void **state)
{
    (void)state;
    kolo_strategy_kind kind = {.name = "own", .replicas = two, .step = compute_nothing};
    refuse(&kind, "strategy own: step(): wanted a call of kolo_replica_compute(), got none in its first step");
    kind.step = reduce_nothing;
    kind.sums_every_step = true;
    refuse(&kind, "wanted a call of kolo_replica_allreduce() or _reduce(), as .sums_every_step says, got none");
    kind.sums_every_step = false;
    kind.updates_every_step = true;
    kind.step = update_nothing;
    refuse(&kind, "wanted a call of kolo_replica_update(), as .updates_every_step says, got none");
    kind.step = look_at_gradient;
    refuse(&kind,
           "wanted no call of kolo_replica_gradient() before kolo_replica_update(), as .updates_every_step says");
    kind.updates_every_step = false;
    assert_true(trains(&kind));
    kind.step = reduce_nothing;
    assert_true(trains(&kind)); /* two copies of the weights, which learn apart */
    kind.weight_placement = shared;
    refuse(&kind, "wanted a call of kolo_replica_allreduce() or _reduce(), since replicas share the weights");
    kind.weight_placement = NULL;
    kind.step = pack_nothing;
    refuse(&kind, "wanted a call of kolo_replica_pack() behind its change of the weights, got none");
    kind.step = look_at_weights;
    assert_true(trains(&kind));
}

/* A strategy may skip an update, so it is a warning. */
static void a_strategy_that_never_updates_is_told(void **state)
{
    (void)state;
    kolo_strategy_kind kind = {.name = "own", .replicas = two, .step = update_nothing};
    char text[4096] = {0};
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_true(file && kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    bool trained = trains(&kind);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_true(trained);
    assert_non_null(strstr(text, "strategy own: step() called neither kolo_replica_update() nor kolo_replica_pack()"));
}

/* ---------------------------------------------------------------- parts of a kind */

static void exchange(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    (void)strategy;
    memcpy(mine->center, mine->weights, (size_t)mine->count * sizeof(float));
}

static void exchange_all(const kolo_strategy *strategy, const kolo_exchange *workers, int count)
{
    (void)strategy, (void)count;
    memcpy(workers->center, workers->weights, (size_t)workers->count * sizeof(float));
}

static void a_part_of_a_kind_is_missed(void **state)
{
    (void)state;
    kolo_strategy_kind kind = {.name = "own", .replicas = kolo_strategy_workers, .step = look_at_weights};
    refuse(&kind, "strategy own: wanted a kolo_strategy_kind with an .exchange or .exchange_all beside .replicas = "
                  "kolo_strategy_workers, got neither");
    kind = (kolo_strategy_kind){.name = "own", .replicas = two, .step = kolo_worker_step};
    refuse(&kind, "an .exchange or .exchange_all beside .step = kolo_worker_step, got neither");
    kind = (kolo_strategy_kind){.name = "own", .replicas = two, .step = look_at_weights, .window = 3};
    refuse(&kind, "an .exchange or .exchange_all beside .window, got neither");
    kind = (kolo_strategy_kind){.name = "own",
                                .replicas = kolo_strategy_workers,
                                .step = kolo_worker_step,
                                .exchange = exchange,
                                .exchange_all = exchange_all};
    refuse(&kind, "strategy own: wanted .exchange or .exchange_all, got both");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_part_of_a_step_is_missed),
                                       cmocka_unit_test(a_strategy_that_never_updates_is_told),
                                       cmocka_unit_test(a_part_of_a_kind_is_missed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
