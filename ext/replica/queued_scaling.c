/* The loss's scale of a replica whose device keeps it (kolo_scaling): how the host's counters and the device's become
 * the same, and what a step parameters has to bring. See queued_replica.h.
 *
 * The device counts; the host learns what came of an update with totals that arrive steps later, and until then gives
 * the numbers of all updates that the next one may turn out to be. */
#include "replica/queued_replica.h"

static const kolo_accelerator *accelerator_of(const kolo_replica *replica)
{
    return replica->engine->queued->accelerator;
}
static kolo_stream *stream_of(const kolo_replica *replica)
{
    return replica->engine->queued->stream;
}

kolo_status kolo_queued_scaling_open(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    bool there = replica->trainer->model->settings.precision == KOLO_MIXED_FP16 && !state->on_host;
    if (!there) return KOLO_OK;
    KOLO_TRY(accelerator_of(replica)->allocate(stream_of(replica), sizeof *state->scaling, "a replica",
                                               (void **)&state->scaling));
    replica->engine->queued->scaling = state->scaling;
    return KOLO_OK;
}

/* What is older than the host's knowledge is nothing new. */
static void take(kolo_replica *replica, const kolo_scaling *seen)
{
    kolo_counters *counters = &replica->counters;
    if (seen->tried <= replica->device->known.tried) return;
    replica->device->known = *seen;
    counters->loss_scale = seen->loss_scale;
    counters->sample_scale = seen->sample_scale;
    counters->good = seen->good;
    counters->updates = seen->updates;
}

void kolo_queued_scaling_arrived(kolo_replica *replica)
{
    if (replica->device->scaling) take(replica, &replica->engine->queued->seen);
}

static int64_t unknown_of(const kolo_queued_state *state)
{
    return state->scaling ? state->tries - state->known.tried : 0;
}

kolo_status kolo_queued_scaling_learn(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    kolo_scaling seen;
    if (unknown_of(state) <= 0) return KOLO_OK;
    KOLO_TRY(accelerator_of(replica)->copy(stream_of(replica), &seen, state->scaling, sizeof seen));
    KOLO_TRY(accelerator_of(replica)->finish(stream_of(replica)));
    take(replica, &seen);
    return KOLO_OK;
}

/* What was tried before is of no more interest, even where it is still to come. */
static kolo_status place(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    const kolo_counters *counters = &replica->counters;
    state->known = (kolo_scaling){.loss_scale = counters->loss_scale,
                                  .sample_scale = counters->sample_scale,
                                  .good = counters->good,
                                  .updates = counters->updates,
                                  .before = counters->updates,
                                  .tried = state->tries};
    KOLO_TRY(accelerator_of(replica)->copy(stream_of(replica), state->scaling, &state->known, sizeof state->known));
    state->placed = true;
    return KOLO_OK;
}

kolo_status kolo_queued_scaling_prepare(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    if (!state->scaling) return KOLO_OK;
    if (!state->placed) return place(replica);
    return unknown_of(state) > KOLO_STEPS_AHEAD ? kolo_queued_scaling_learn(replica) : KOLO_OK;
}

void kolo_queued_scaling_tell(const kolo_replica *replica, int64_t batch_samples, kolo_step_parameters *step_parameters)
{
    const kolo_model *model = replica->trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    const kolo_counters *counters = &replica->counters;
    int64_t unknown = unknown_of(replica->device);
    if (!replica->device->scaling) return;
    step_parameters->loss_scale = counters->waiting == 0 ? 1 / (double)batch_samples : 0;
    step_parameters->updates = counters->updates;
    for (int64_t i = 0; i <= unknown && unknown > 0; i++) { /* the first, too: another replica may know more */
        int64_t updates = counters->updates + i;
        bool scheduled = optimizer->common.schedule.kind;
        double rate = scheduled ? kolo_optimizer_rate(optimizer, updates) : model->learning_rate;
        kolo_rule_numbers(optimizer, rate, updates + 1, i == 0 ? step_parameters->rule : step_parameters->later[i - 1]);
    }
}
