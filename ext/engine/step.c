/* Enqueues a training step: its step parameters, its samples, its shard. See engine.h. */
#include <string.h>

#include "core/timeline.h"
#include "runtime/runtime.h"
#include "engine/engine.h"

/* ---------------------------------------------------------------- step parameters */

static kolo_status send(kolo_engine *engine, int slot)
{
    size_t bytes = engine->scaling ? sizeof *engine->step_parameters : offsetof(kolo_step_parameters, updates);
    return engine->streams->copy(engine->stream, engine->step_parameters, &engine->parameter_ring[slot], bytes);
}

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

/* Before it fills a slot of parameter_ring, waits for the copy from it that was enqueued KOLO_STEPS_AHEAD steps ago. */
static kolo_status send_step_parameters(kolo_engine *engine, const kolo_shard *shard,
                                        const kolo_step_parameters *numbers)
{
    int slot = (int)(engine->enqueued % KOLO_STEPS_AHEAD);
    kolo_step_parameters step_parameters = parameters_of(engine, shard, numbers);
    KOLO_TRY(kolo_dataset_cache_stage(&engine->cache, shard, &step_parameters));
    if (engine->copied[slot]) KOLO_TRY(engine->streams->synchronize_event(engine->stream, engine->copied[slot]));
    engine->parameter_ring[slot] = step_parameters;
    KOLO_TRY(send(engine, slot));
    engine->enqueued++;
    return engine->streams->record_event(engine->stream, &engine->copied[slot]);
}

kolo_status kolo_engine_correct(kolo_engine *engine, const kolo_step_parameters *numbers)
{
    int slot = engine->enqueued > 0 ? (int)((engine->enqueued - 1) % KOLO_STEPS_AHEAD) : 0;
    kolo_step_parameters *step_parameters = &engine->parameter_ring[slot];
    if (engine->copied[slot]) KOLO_TRY(engine->streams->synchronize_event(engine->stream, engine->copied[slot]));
    step_parameters->scale = numbers->scale;
    step_parameters->per_sample = numbers->per_sample;
    step_parameters->update = numbers->update;
    memcpy(step_parameters->rule, numbers->rule, sizeof step_parameters->rule);
    KOLO_TRY(send(engine, slot));
    return engine->streams->record_event(engine->stream, &engine->copied[slot]);
}

kolo_status kolo_engine_prepare(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers)
{
    if (shard->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
    KOLO_TRY(kolo_engine_reserve(engine, shard->end_microbatch - shard->first_microbatch));
    return send_step_parameters(engine, shard, numbers);
}

/* ---------------------------------------------------------------- the shard */

kolo_status kolo_engine_enqueue_step(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers)
{
    KOLO_TRY(kolo_engine_prepare(engine, shard, numbers));
    int64_t begun = engine->streams->steps_ahead > 0 ? kolo_timeline_begin() : 0;
    KOLO_TRY(kolo_engine_enqueue_or_launch(engine, shard));
    kolo_timeline_end(begun, KOLO_SPAN_ENQUEUE, "forward and backward");
    KOLO_TRY(kolo_dataset_cache_done(&engine->cache));
    return kolo_engine_send_totals(engine, shard);
}
