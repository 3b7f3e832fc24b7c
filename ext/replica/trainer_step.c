/* Runs the steps of a trainer: see trainer.h. */
#include "replica/overlap.h"
#include "replica/workers.h"

#include "core/clock.h"
#include "runtime/fault.h"
#include "runtime/runtime.h"

typedef struct step_job {
    kolo_trainer *trainer;
    const kolo_batch *batch;
} step_job;

static bool is_called_off(const void *argument)
{
    const kolo_replica *replica = argument;
    const kolo_comm *local = replica->local;
    if (replica->trainer->workers) return kolo_workers_have_failed(replica->trainer);
    return local && local->kind->aborted && local->kind->aborted(local);
}

/* One step by the model's strategy, with the faults that were asked for. */
static kolo_status step_with_faults(kolo_replica *replica, const kolo_batch *batch)
{
    const kolo_strategy_kind *kind = kolo_model_strategy(replica->trainer->model);
    kolo_status (*step_of)(kolo_replica *, const kolo_batch *) = replica->tried ? kind->step : kolo_replica_first_step;
    if (!kolo_faults_wanted()) return step_of(replica, batch);
    kolo_fault_place place = {.number = kolo_size() > 1 ? kolo_rank() : replica->index,
                              .step = replica->own_steps++,
                              .worker = replica->trainer->workers != NULL,
                              .is_called_off = is_called_off,
                              .argument = replica};
    double started = kolo_now();
    KOLO_TRY(kolo_fault_strike(&place));
    KOLO_TRY(step_of(replica, batch));
    bool flipped =
        kolo_fault_follow(&place, kolo_now() - started, kolo_replica_weights(replica), kolo_replica_count(replica));
    return flipped ? kolo_replica_pack(replica) : KOLO_OK;
}

/* Where one replica computes for all devices of the process, its microbatches are in the rows of all. */
static void name_rows(kolo_replica *replica, const kolo_batch *batch)
{
    const kolo_trainer *trainer = replica->trainer;
    bool together = trainer->running < trainer->count;
    kolo_engine_rows *rows = &replica->engine->rows;
    *rows = (kolo_engine_rows){.steps = true, .replica = replica->index};
    if (trainer->workers) rows->worker = kolo_worker_number(replica) + 1;
    if (!together) return;
    rows->members = replica->group->size;
    rows->first_member = replica->group->rank;
    rows->microbatches = kolo_batch_microbatches(batch);
}

kolo_timeline_place kolo_replica_enter_row(const kolo_replica *replica, int64_t step)
{
    kolo_timeline_place nowhere = {0};
    if (!kolo_timeline_is_on()) return nowhere;
    const kolo_trainer *trainer = replica->trainer;
    if (trainer->workers) return kolo_timeline_enter("worker", kolo_worker_number(replica), 0, step);
    return kolo_timeline_enter("device", kolo_model_device(trainer->model, replica->index, 0), 0, step);
}

kolo_status kolo_replica_step(kolo_replica *replica, const kolo_batch *batch)
{
    if (!kolo_timeline_is_on()) return step_with_faults(replica, batch);
    name_rows(replica, batch);
    replica->timeline_step = (int64_t)batch->step;
    kolo_timeline_place before = kolo_replica_enter_row(replica, replica->timeline_step);
    int64_t begun = kolo_timeline_begin();
    kolo_status status = step_with_faults(replica, batch);
    kolo_timeline_end_with(begun, KOLO_SPAN_STEP, "step", (int64_t)replica->shard_samples, 0);
    kolo_timeline_leave(before);
    return status;
}

static kolo_status step_replica(void *argument, int member)
{
    step_job *job = argument;
    kolo_replica *replica = &job->trainer->replicas[member];
    kolo_status status = kolo_replica_step(replica, job->batch);
    if (status == KOLO_OK) status = kolo_replica_share_totals(replica);
    if (status != KOLO_OK) replica->local->kind->abort(replica->local);
    return status;
}

kolo_status kolo_trainer_renew(kolo_trainer *trainer, kolo_status status)
{
    kolo_failure failure = kolo_failure_take();
    kolo_trainer_close_groups(trainer);
    if (kolo_trainer_open_groups(trainer) != KOLO_OK) kolo_trainer_close_groups(trainer);
    kolo_failure_take();
    kolo_failure_give(&failure);
    return status;
}

/* Sums the replicas' totals. */
static void gather_totals(kolo_trainer *trainer)
{
    trainer->local_totals = (kolo_totals){0};
    for (int i = 0; i < trainer->count; i++)
        kolo_totals_add(&trainer->local_totals, &trainer->replicas[i].local_totals);
}

static kolo_status settle_replica(void *argument, int member)
{
    kolo_trainer *trainer = argument;
    kolo_replica *replica = &trainer->replicas[member];
    kolo_status status = kolo_replica_settle(replica);
    if (status != KOLO_OK) replica->local->kind->abort(replica->local); /* the others would wait for its totals */
    return status;
}

/* Sets model->learning_rate to that of the last step, whose number of updates is known only now. */
static void note_rate(kolo_trainer *trainer)
{
    kolo_model *model = trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    const kolo_replica *first = &trainer->replicas[0];
    if (!optimizer->common.schedule.kind || !first->scaling || trainer->steps == 0) return;
    model->learning_rate = kolo_optimizer_rate(optimizer, first->read_scaling.updates_before);
}

kolo_status kolo_trainer_settle(kolo_trainer *trainer)
{
    for (int i = 0; i < trainer->count; i++)
        trainer->replicas[i].local_totals = trainer->replicas[i].totals = (kolo_totals){0};
    trainer->local_totals = (kolo_totals){0};
    bool late = trainer->model->backend->streams->steps_ahead > 0;
    if (!late || !trainer->replicas[0].group || trainer->exact) return KOLO_OK;
    kolo_status status = kolo_team_run(trainer->team, settle_replica, trainer);
    if (status != KOLO_OK) return kolo_trainer_renew(trainer, status);
    gather_totals(trainer);
    note_rate(trainer);
    return KOLO_OK;
}

static int64_t microbatches_of(const kolo_replica *replica, int64_t samples)
{
    int64_t microbatch = replica->trainer->microbatch;
    return kolo_replica_microbatches(replica, 1, (samples + microbatch - 1) / microbatch);
}

static kolo_status reserve(kolo_replica *replica, int64_t samples)
{
    const kolo_trainer *trainer = replica->trainer;
    int64_t microbatches = microbatches_of(replica, samples);
    replica->engine->tree = replica->tree;
    replica->engine->in_buckets = trainer->overlap != NULL;
    KOLO_TRY(kolo_engine_reserve(replica->engine, microbatches));
    if (!trainer->overlap || trainer->model->settings.optimizer.common.accumulate_steps <= 1) return KOLO_OK;
    replica->engine->in_buckets = false; /* in the steps that end no group of batches */
    return kolo_engine_reserve(replica->engine, microbatches);
}

/* All replicas reserve their memory before one of them takes memory for the data: they may share a device. */
kolo_status kolo_trainer_attach(kolo_trainer *trainer, const kolo_data *data, int64_t samples, int64_t wanted)
{
    const kolo_comm *local = trainer->replicas[0].local;
    trainer->data = data;
    if (local && local->kind->aborted && local->kind->aborted(local))
        kolo_trainer_close_groups(trainer); /* a device has lost its group since the last step; opened again below */
    if (!trainer->replicas[0].group) KOLO_TRY(kolo_trainer_open_groups(trainer));
    for (int i = 0; i < trainer->running; i++) KOLO_TRY(reserve(&trainer->replicas[i], samples));
    for (int i = 0; i < trainer->running; i++)
        KOLO_TRY(kolo_replica_attach(&trainer->replicas[i], data, samples, wanted));
    return KOLO_OK;
}

kolo_status kolo_trainer_step(kolo_trainer *trainer, const kolo_batch *batch)
{
    if (!trainer->replicas[0].group) KOLO_TRY(kolo_trainer_open_groups(trainer));
    step_job job = {trainer, batch};
    kolo_model *model = trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    if (optimizer->common.schedule.kind)
        model->learning_rate = kolo_optimizer_rate(optimizer, trainer->replicas[0].counters.updates);
    trainer->batch_microbatches = kolo_batch_microbatches(batch);
    kolo_reduction_begin(trainer->tree, trainer->batch_microbatches);
    kolo_reduction_begin(trainer->totals_tree, trainer->batch_microbatches);
    kolo_overlap_begin(trainer);
    kolo_status status = kolo_team_run(trainer->team, step_replica, &job);
    if (status != KOLO_OK) kolo_overlap_abandon(trainer);
    if (status != KOLO_OK) return kolo_trainer_renew(trainer, status);
    trainer->steps++;
    KOLO_TRY(kolo_trainer_share_scaling(trainer));
    for (int i = trainer->running; i < trainer->count; i++)
        trainer->replicas[i].counters = trainer->replicas[0].counters;
    gather_totals(trainer);
    return KOLO_OK;
}
