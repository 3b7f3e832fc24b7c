/* The part of kolo_fit() before the first step in which ranks that train together agree: see fit.h. */
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "replica/worker_records.h"
#include "training/fit.h"

kolo_status kolo_agree_on_microbatch(kolo_comm *ranks, int *microbatch)
{
    int own = *microbatch, *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' settings");
    kolo_status status = ranks->kind->allgather(ranks, &own, sizeof own, all);
    for (int r = 0; r < ranks->size && status == KOLO_OK; r++)
        *microbatch = all[r] < *microbatch ? all[r] : *microbatch;
    free(all);
    return status;
}

kolo_status kolo_fit_agree(kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    state->validates = state->validation != NULL;
    if (ranks->size == 1) return KOLO_OK;
    KOLO_TRY(kolo_fit_agree_on_terms(state));
    if (state->args->sharded) KOLO_TRY(ranks->kind->broadcast(ranks, &state->validates, sizeof state->validates, 0));
    else KOLO_TRY(kolo_fit_agree_on_data(state));
    KOLO_TRY(ranks->kind->broadcast(ranks, &state->seed, sizeof state->seed, 0));
    state->model->seed = state->seed; /* so that it is in checkpoints, too */
    return kolo_agree_on_microbatch(ranks, &state->microbatch);
}

static void tell_failure(const kolo_failure *failure, int rank)
{
    kolo_fail(failure->code, "rank %d cannot begin: %s", rank, failure->text);
}

kolo_status kolo_fit_agree_to_begin(const kolo_fit_state *state, kolo_status status)
{
    kolo_comm *ranks = state->ranks;
    if (ranks->size == 1) return status;
    kolo_failure own = {.code = KOLO_OK}, *all = calloc((size_t)ranks->size, sizeof *all);
    if (status != KOLO_OK) own = kolo_failure_take();
    bool silent = status != KOLO_OK && own.code == KOLO_OK; /* an earlier failure, which was printed, is the cause */
    if (silent) own = (kolo_failure){status, "an earlier call failed"};
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' failures");
    kolo_status told = ranks->kind->allgather(ranks, &own, sizeof own, all);
    if (status != KOLO_OK && !silent) kolo_failure_give(&own);
    for (int r = 0; r < ranks->size && status == KOLO_OK && told == KOLO_OK; r++) {
        status = all[r].code;
        if (status != KOLO_OK) tell_failure(&all[r], r);
    }
    free(all);
    return status != KOLO_OK ? status : told;
}

/* A callback may resume the training on one rank, where it finds a backup, and not on another. */
static kolo_status agree_on_position(kolo_fit_state *state)
{
    static const char *const names[] = {"a training that goes on (.resume, kolo_backup_and_restore())", "epochs done",
                                        "steps of an epoch done", "batches done", "the seed"};
    const kolo_position *at = &state->model->position;
    int64_t mine[] = {true, at->epoch, at->step, state->trainer->replicas[0].counters.steps,
                      (int64_t)state->model->seed};
    if (!state->model->resumed) memset(mine, 0, sizeof mine);
    return state->ranks->size == 1 ? KOLO_OK : kolo_fit_agree_on(state->ranks, mine, names, 5);
}

kolo_status kolo_fit_begin_at(kolo_fit_state *state)
{
    kolo_position *at = &state->model->position;
    KOLO_TRY(agree_on_position(state));
    if (!state->model->resumed) return KOLO_OK;
    state->seed = state->trainer->seed = state->model->seed;
    if (at->step > 0 && at->samples != state->data->samples)
        return kolo_fail(KOLO_INVALID, "wanted %lld samples to go on within an epoch, got %lld", (long long)at->samples,
                         (long long)state->data->samples);
    state->epoch_anew = at->step > 0 && at->batch != state->batch; /* as after a restart with fewer ranks */
    if (state->epoch_anew) at->step = 0;
    return kolo_workers_resume(state->trainer);
}

/* Sets all[ranks] to the hashes of their models' weights. */
static kolo_status gather_hashes(const kolo_fit_state *state, uint64_t *all)
{
    const kolo_model *model = state->model;
    kolo_comm *ranks = state->ranks;
    uint64_t hash = kolo_hash_add_words(KOLO_HASH_START, model->weights, model->weight_count);
    return ranks->kind->allgather(ranks, &hash, sizeof hash, all);
}

/* How many ranks have the hash of rank `rank`. */
static int count_equal(const uint64_t *all, int size, int rank)
{
    int same = 0;
    for (int other = 0; other < size; other++) same += all[other] == all[rank];
    return same;
}

static kolo_status compare_hashes(const kolo_fit_state *state, const uint64_t *all, int step)
{
    int size = state->ranks->size, common = 0, other = 0;
    for (int r = 1; r < size; r++)
        if (count_equal(all, size, r) > count_equal(all, size, common)) common = r;
    while (other < size && all[other] == all[common]) other++;
    if (other == size) return KOLO_OK;
    const char *when = kolo_phrase("after step %d of epoch %d", step, state->model->position.epoch + 1);
    if (count_equal(all, size, common) == 1)
        return kolo_fail(KOLO_COMM, "%s all %d ranks have different weights", when, size);
    return kolo_fail(KOLO_COMM, "%s rank %d has other weights than most of the %d ranks", when, other, size);
}

kolo_status kolo_fit_check_weights(kolo_fit_state *state, int step)
{
    kolo_comm *ranks = state->ranks;
    int every = state->args->check_every;
    if (every <= 0 || ranks->size == 1 || state->trainer->workers || step % every != 0) return KOLO_OK;
    uint64_t *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' weights");
    kolo_status status = kolo_trainer_fetch(state->trainer);
    if (status == KOLO_OK) status = gather_hashes(state, all);
    if (status == KOLO_OK) status = compare_hashes(state, all, step);
    free(all);
    return status;
}

kolo_status kolo_fit_compare_rates(const kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    double mine = state->model->learning_rate, *all;
    bool begins = state->model->history.epochs == 0; /* later a worker's rank may be gone */
    if (ranks->size == 1 || (state->trainer->workers && !begins)) return KOLO_OK;
    all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' learning rates");
    kolo_status status = ranks->kind->allgather(ranks, &mine, sizeof mine, all);
    for (int r = 1; r < ranks->size && status == KOLO_OK; r++)
        if (all[r] != all[0])
            status = kolo_fail(KOLO_INVALID,
                               "wanted the same learning rate on all ranks, got %.9g on rank 0, %.9g on rank %d: each "
                               "rank must set it, by the same callbacks",
                               all[0], all[r], r);
    free(all);
    return status;
}

kolo_status kolo_fit_compare_weights(kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    if (ranks->size == 1) return KOLO_OK;
    uint64_t *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' weights");
    kolo_status status = gather_hashes(state, all);
    int differs = 0;
    for (int r = ranks->size - 1; status == KOLO_OK && r > 0; r--) differs = all[r] != all[0] ? r : differs;
    free(all);
    if (differs > 0 && kolo_model_strategy(state->model)->joins_ranks) return kolo_broadcast_all(state->model, 0);
    if (differs > 0)
        kolo_warn("rank %d starts from other weights than rank 0, so they will learn apart: list "
                  "kolo_broadcast_variables(0) among the .callbacks, or give all ranks one .seed",
                  differs);
    return status;
}
