/* Loss scaling: keeps the host's counters and the stream's kolo_scaling the same. See replica.h and
 * backend/step_parameters.h.
 *
 * The stream decides whether an update is skipped. The host reads the outcome back with the totals, which on an
 * asynchronous stream is some steps later. Until then it sends the optimizer's numbers for each number that the next
 * update may have. */
#include "optimizers/optimizer.h"
#include "replica/trainer.h"

kolo_status kolo_replica_open_scaling(kolo_replica *replica)
{
    bool scaled = replica->trainer->model->settings.precision == KOLO_MIXED_FP16 && !replica->by_host;
    if (!scaled || replica->scaling) return KOLO_OK;
    return kolo_replica_streams(replica)->allocate(replica->stream, sizeof *replica->scaling, "a replica",
                                                   (void **)&replica->scaling);
}

/* Sets the counters, unless they are newer than *seen. */
static void set_counters(kolo_replica *replica, const kolo_scaling *seen)
{
    kolo_counters *counters = &replica->counters;
    if (seen->tried <= replica->read_scaling.tried) return;
    replica->read_scaling = *seen;
    counters->loss_scale = seen->loss_scale;
    counters->sample_scale = seen->sample_scale;
    counters->good = seen->good;
    counters->updates = seen->updates;
}

void kolo_replica_read_scaling(kolo_replica *replica)
{
    if (replica->scaling) set_counters(replica, &replica->engine->seen);
}

static int64_t unknown_of(const kolo_replica *replica)
{
    return replica->scaling ? replica->enqueued_updates - replica->read_scaling.tried : 0;
}

kolo_status kolo_replica_synchronize_scaling(kolo_replica *replica)
{
    kolo_scaling seen;
    if (unknown_of(replica) <= 0) return KOLO_OK;
    KOLO_TRY(kolo_replica_streams(replica)->copy(replica->stream, &seen, replica->scaling, sizeof seen));
    KOLO_TRY(kolo_replica_streams(replica)->synchronize(replica->stream));
    set_counters(replica, &seen);
    return KOLO_OK;
}

kolo_status kolo_trainer_share_scaling(kolo_trainer *trainer)
{
    kolo_replica *updater = &trainer->replicas[trainer->updater];
    if (trainer->weight_placement != KOLO_WEIGHTS_CENTRAL || !updater->scaling) return KOLO_OK;
    KOLO_TRY(kolo_replica_synchronize_scaling(updater));
    for (int i = 0; i < trainer->running; i++) {
        kolo_replica *other = &trainer->replicas[i];
        if (other == updater) continue;
        other->counters.loss_scale = updater->counters.loss_scale;
        other->counters.sample_scale = updater->counters.sample_scale;
        other->counters.good = updater->counters.good;
        other->counters.updates = updater->counters.updates;
        other->scaling_is_current = false;
    }
    return KOLO_OK;
}

/* Copies the counters to the stream. Outcomes of earlier updates that are read back later are then ignored. */
static kolo_status send_counters(kolo_replica *replica)
{
    const kolo_counters *counters = &replica->counters;
    replica->read_scaling = (kolo_scaling){.loss_scale = counters->loss_scale,
                                           .sample_scale = counters->sample_scale,
                                           .good = counters->good,
                                           .updates = counters->updates,
                                           .updates_before = counters->updates,
                                           .tried = replica->enqueued_updates};
    KOLO_TRY(kolo_replica_streams(replica)->copy(replica->stream, replica->scaling, &replica->read_scaling,
                                                 sizeof replica->read_scaling));
    replica->scaling_is_current = true;
    return KOLO_OK;
}

kolo_status kolo_replica_prepare_scaling(kolo_replica *replica)
{
    if (!replica->scaling) return KOLO_OK;
    if (!replica->scaling_is_current) return send_counters(replica);
    return unknown_of(replica) > KOLO_STEPS_AHEAD ? kolo_replica_synchronize_scaling(replica) : KOLO_OK;
}

void kolo_replica_set_scaling(const kolo_replica *replica, int64_t batch_samples, kolo_step_parameters *step_parameters)
{
    const kolo_model *model = replica->trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    const kolo_counters *counters = &replica->counters;
    int64_t unknown = unknown_of(replica);
    if (!replica->scaling) return;
    step_parameters->loss_scale = counters->accumulated_batches == 0 ? 1 / (double)batch_samples : 0;
    step_parameters->updates = counters->updates;
    /* From i = 0, since .rule was computed with replica 0's learning rate: it may have read back more updates. */
    for (int64_t i = 0; i <= unknown && unknown > 0; i++) {
        int64_t updates = counters->updates + i;
        bool scheduled = optimizer->common.schedule.kind;
        double rate = scheduled ? kolo_optimizer_rate(optimizer, updates) : kolo_replica_rate(replica);
        kolo_rule_numbers(optimizer, rate, updates + 1, i == 0 ? step_parameters->rule : step_parameters->later[i - 1]);
    }
}
