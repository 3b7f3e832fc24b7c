/* kolo_train_on_batch: one step outside kolo_fit, for custom training loops. */
#include <stdlib.h>

#include "replica/overlap.h"
#include "training/fit.h"
#include "core/clock.h"
#include "runtime/runtime.h"

/* The settings of a rank: all must be equal, except that all ranks take rank 0's seed and the smallest microbatch. */
typedef struct step_terms {
    int64_t first, samples, data, weights, sums, on_gpu;
    int64_t microbatch;
    uint64_t seed;
} step_terms;

static kolo_status compare(const step_terms *all, int size)
{
    static const char *const names[] = {"first sample",        "samples",     "samples in its data", "weights",
                                        "sums of its metrics", "use of a GPU"};
    for (int rank = 1; rank < size; rank++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            int64_t first = ((const int64_t *)&all[0])[i], other = ((const int64_t *)&all[rank])[i];
            if (first != other)
                return kolo_fail(KOLO_INVALID, "wanted the same on all ranks, got %s: %lld on rank 0, %lld on rank %d",
                                 names[i], (long long)first, (long long)other, rank);
        }
    return KOLO_OK;
}

static kolo_status agree(kolo_comm *ranks, step_terms *mine)
{
    if (ranks->size == 1) return KOLO_OK;
    step_terms *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' settings");
    kolo_status status = ranks->kind->allgather(ranks, mine, sizeof *mine, all);
    if (status == KOLO_OK) status = compare(all, ranks->size);
    *mine = all[0];
    for (int r = 1; r < ranks->size; r++)
        mine->microbatch = all[r].microbatch < mine->microbatch ? all[r].microbatch : mine->microbatch;
    free(all);
    return status;
}

/* A smaller batch keeps the microbatch of the step before, so that a short last batch needs no new plan. */
static int64_t microbatch_for(const kolo_model *model, int64_t samples)
{
    int microbatch = kolo_choose_microbatch(model, samples, kolo_model_replicas(model), kolo_model_members(model));
    return model->trainer && model->trainer->microbatch > microbatch ? model->trainer->microbatch : microbatch;
}

static kolo_status step(kolo_model *model, const kolo_data *data, int64_t first, int64_t samples, kolo_scores *scores)
{
    kolo_comm *ranks = kolo_model_ranks(model);
    KOLO_TRY(kolo_model_meet(model));
    step_terms terms = {first,
                        samples,
                        data->samples,
                        model->weight_count,
                        model->metrics.sums,
                        model->backend->devices != NULL,
                        microbatch_for(model, samples),
                        model->seed};
    KOLO_TRY(agree(ranks, &terms));
    KOLO_TRY(kolo_trainer_prepare(model, (int)terms.microbatch));
    kolo_trainer *trainer = model->trainer;
    trainer->seed = terms.seed;
    trainer->exact = true;
    KOLO_TRY(kolo_trainer_attach(trainer, data, samples, samples));
    KOLO_TRY(kolo_overlap_agree(trainer));
    model->stop_training = false;
    kolo_batch batch = {.first = first,
                        .samples = samples,
                        .microbatch = (int)terms.microbatch,
                        .step = (uint64_t)trainer->replicas[0].counters.steps};
    KOLO_TRY(kolo_trainer_step(trainer, &batch));
    KOLO_TRY(kolo_trainer_fetch(trainer));
    const kolo_totals *totals = &trainer->replicas[0].totals;
    *scores = kolo_scores_of(model, totals);
    return totals->stops > 0 ? KOLO_INTERRUPTED : KOLO_OK;
}

static kolo_status train(kolo_model *model, const kolo_data *data, int64_t first, int64_t samples, kolo_scores *scores)
{
    double started = kolo_now();
    KOLO_TRY(kolo_check_training(model, data, "kolo_train_on_batch()"));
    KOLO_TRY(kolo_check_range(data, first, samples));
    if (kolo_strategy_has_workers(kolo_model_strategy(model)))
        return kolo_fail(KOLO_INVALID,
                         "wanted kolo_fit(), since the workers of strategy %s train on batches of their own",
                         kolo_model_strategy(model)->name);
    model->fitting = true;
    kolo_status status = step(model, data, first, samples, scores);
    model->fitting = false;
    scores->seconds = kolo_now() - started;
    if (status == KOLO_INTERRUPTED) *scores = kolo_scores_of(NULL, NULL);
    return kolo_obey_stop(status);
}

kolo_scores kolo_train_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, kolo_here here)
{
    kolo_scores scores = kolo_scores_of(NULL, NULL);
    kolo_model_call call = kolo_model_enter(model, "kolo_train_on_batch", true, here);
    if (call.status == KOLO_OK) call.status = train(model, data, first, samples, &scores);
    kolo_model_leave(&call);
    return scores;
}
