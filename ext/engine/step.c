/* Enqueues a training step: its step parameters, its samples, its shard. See engine.h. */
#include "core/timeline.h"
#include "runtime/runtime.h"
#include "engine/engine.h"

/* ---------------------------------------------------------------- step parameters */

static kolo_step_parameters parameters_of(const kolo_engine *engine, const kolo_shard *shard,
                                          const kolo_step_parameters *numbers)
{
    kolo_step_parameters step_parameters = numbers ? *numbers : (kolo_step_parameters){0};
    step_parameters.samples = shard->batch->samples;
    step_parameters.step = shard->batch->step;
    step_parameters.seed = shard->seed;
    if (!numbers || !engine->scaling) step_parameters.loss_scale = shard->loss_scale != 0 ? shard->loss_scale : 1;
    return step_parameters;
}

/* The step that was enqueued KOLO_STEPS_AHEAD steps ago has taken its step parameters from the same slot of the ring.
 * Unless its totals were read back, the host waits for that step. */
static kolo_status put_step_parameters(kolo_engine *engine, const kolo_shard *shard,
                                       const kolo_step_parameters *numbers)
{
    int slot = (int)(engine->enqueued % KOLO_STEPS_AHEAD);
    const kolo_readback *before = &engine->readbacks[slot];
    kolo_step_parameters step_parameters = parameters_of(engine, shard, numbers);
    step_parameters.slot = slot;
    KOLO_TRY(kolo_dataset_cache_stage(&engine->cache, shard, &step_parameters));
    if (before->pending) KOLO_TRY(engine->streams->synchronize_event(engine->stream, before->event));
    engine->parameter_ring[slot] = step_parameters;
    engine->enqueued++;
    return KOLO_OK;
}

kolo_status kolo_engine_rewind_ring(kolo_engine *engine, int64_t step)
{
    int64_t before = (step + KOLO_STEPS_AHEAD - 1) % KOLO_STEPS_AHEAD, *slot = &engine->parameter_ring[before].slot;
    *slot = before; /* as it is, if it was ever filled */
    return engine->streams->copy(engine->stream, &engine->step_parameters->slot, slot, sizeof *slot);
}

kolo_status kolo_engine_correct(kolo_engine *engine, const kolo_step_parameters *numbers)
{
    const size_t first = offsetof(kolo_step_parameters, scale), end = offsetof(kolo_step_parameters, updates);
    kolo_step_parameters *correction = &engine->parameter_ring[KOLO_STEPS_AHEAD];
    if (engine->corrected) KOLO_TRY(engine->streams->synchronize_event(engine->stream, engine->corrected));
    *correction = *numbers;
    KOLO_TRY(engine->streams->copy(engine->stream, (char *)engine->step_parameters + first, (char *)correction + first,
                                   end - first));
    return engine->streams->record_event(engine->stream, &engine->corrected);
}

kolo_status kolo_engine_prepare(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers)
{
    if (shard->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
    KOLO_TRY(kolo_engine_reserve(engine, shard->end_microbatch - shard->first_microbatch));
    return put_step_parameters(engine, shard, numbers);
}

/* ---------------------------------------------------------------- the shard */

kolo_status kolo_engine_enqueue_step(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers)
{
    KOLO_TRY(kolo_engine_prepare(engine, shard, numbers));
    int64_t begun = engine->streams->steps_ahead > 0 ? kolo_timeline_begin() : 0;
    KOLO_TRY(kolo_engine_enqueue_or_launch(engine, shard));
    kolo_timeline_end(begun, KOLO_SPAN_ENQUEUE, "forward and backward");
    KOLO_TRY(kolo_dataset_cache_done(&engine->cache));
    return kolo_engine_expect_totals(engine, shard);
}
