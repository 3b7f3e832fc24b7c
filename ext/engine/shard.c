/* Runs the microbatches of a shard through the stages of the program: see engine.h.
 *
 * Between two reductions over microbatches a program is a pipeline of stages, each on one device. A single stage runs
 * all microbatches in one for_each() of its stream. With several stages, groups of microbatches go from stage to stage:
 * while device 1 works on group 0, device 0 works on group 1. A group enters a stage after it has left the stage
 * before. A reduction begins after all microbatches have passed the stage before it. */
#include <string.h>

#include "core/clock.h"
#include "runtime/runtime.h"
#include "data/tokens.h"
#include "data/data.h"
#include "engine/timeline.h"

static int slot_of(const kolo_engine *engine, int lane, int64_t microbatch)
{
    if (engine->program->reduces) return (int)(microbatch - engine->shard->first_microbatch);
    return engine->stage_count == 1 ? lane : (int)((microbatch - engine->shard->first_microbatch) % engine->slots);
}

/* Whether gradients are summed segment by segment (segment_sums.h). */
static bool sums_by_segment(const kolo_engine *engine)
{
    return engine->program->reduces && engine->tree && !engine->in_buckets;
}

/* Whether a microbatch's gradient is one block, from its beginning to its end. */
static bool has_whole_gradient(const kolo_engine *engine)
{
    return engine->tree && !engine->program->reduces && !engine->in_buckets;
}

static float **part_blocks(const kolo_engine *engine, int lane)
{
    return engine->part_blocks + (size_t)lane * (size_t)engine->buckets->part_count;
}

/* ---------------------------------------------------------------- samples */

kolo_status kolo_shard_gather(const kolo_shard *shard, const kolo_plan *plan, int64_t first, int count,
                              const kolo_gathered *to)
{
    const kolo_batch *batch = shard->batch;
    const int32_t *order = batch->order ? batch->order + first : NULL;
    kolo_gather_call call = {.training = plan->dropout,
                             .seed = shard->seed,
                             .step = batch->step,
                             .first_sample = first,
                             .stoppable = shard->stoppable};
    if (shard->staged) kolo_staged_copy(shard->staged, shard->data, first, count, to);
    else KOLO_TRY(kolo_data_gather(shard->data, &call, order, batch->first + first, count, to));
    return kolo_tokens_check(plan, batch, first, count, to->features);
}

/* Gathers in this lane. */
static kolo_status gather_here(kolo_engine *engine, int64_t microbatch, const kolo_gathered *to)
{
    const kolo_shard *shard = engine->shard;
    const kolo_batch *batch = shard->batch;
    int64_t first = microbatch * batch->microbatch, left = batch->samples - first;
    int count = left < batch->microbatch ? (int)left : batch->microbatch;
    double began = kolo_now();
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(kolo_shard_gather(shard, &engine->program->plan, first, count, to));
    kolo_timeline_end_with(begun, KOLO_SPAN_INPUT, "gather", microbatch,
                           count * (int64_t)kolo_gathered_bytes(shard->data, to));
    size_t elements = (size_t)kolo_shape_count(shard->data->shape);
    memset(to->features + (size_t)count * elements, 0,
           (size_t)(batch->microbatch - count) * elements * sizeof *to->features);
    atomic_fetch_add(&engine->sliced_bytes, count * (int64_t)kolo_gathered_bytes(shard->data, to));
    atomic_fetch_add(&engine->slicing_nanoseconds, (int64_t)(1e9 * (kolo_now() - began)));
    return KOLO_OK;
}

static kolo_status gather(kolo_engine *engine, int64_t microbatch, kolo_activations *activations)
{
    const kolo_plan *plan = &engine->program->plan;
    kolo_gathered to = {.features = kolo_activations_input(activations),
                        .labels = activations->labels,
                        .targets = activations->targets,
                        .weights = activations->weights,
                        .outputs = kolo_plan_outputs(plan)};
    if (!engine->streams->gather) return gather_here(engine, microbatch, &to);
    return engine->streams->gather(engine->stream, &engine->cache.sources, engine->step_parameters,
                                   microbatch * plan->microbatch, plan->microbatch, &to);
}

static kolo_status copy_array(kolo_device_context *context, void *to, const void *from, size_t bytes)
{
    return to ? context->streams->copy(context->stream, to, from, bytes) : KOLO_OK;
}

static bool is_first_of_context(const kolo_program *program, int segment)
{
    for (int s = 0; s < segment; s++)
        if (program->segments[s].device == program->segments[segment].device) return false;
    return true;
}

/* Copies labels, targets and weights from home to a context whose operations read them. */
static kolo_status take_samples(kolo_engine *engine, int segment, int slot)
{
    const kolo_plan *plan = &engine->program->plan;
    kolo_device_context *context = &engine->contexts[engine->program->segments[segment].device];
    if (context->memory == 0 || !context->receives_labels || !is_first_of_context(engine->program, segment))
        return KOLO_OK;
    size_t numbers = (size_t)(plan->microbatch * kolo_plan_outputs(plan));
    size_t rows = (size_t)(plan->microbatch * kolo_plan_rows(plan));
    const kolo_activations *from = kolo_engine_activations(engine, 0, slot);
    const kolo_activations *to = kolo_engine_activations(engine, context->number, slot);
    KOLO_TRY(copy_array(context, to->labels, from->labels, rows * sizeof *to->labels));
    KOLO_TRY(copy_array(context, to->targets, from->targets, numbers * sizeof *to->targets));
    return copy_array(context, to->weights, from->weights, (size_t)plan->microbatch * sizeof *to->weights);
}

/* ---------------------------------------------------------------- one segment of one microbatch */

/* Makes a single microbatch write its partials directly to the addresses of the reduced sums. */
static void bind_sums(const kolo_device_context *context, const kolo_segment *segment, kolo_activations *activations)
{
    const kolo_program *program = context->program;
    if (segment->reduce >= 0)
        activations->memory[program->plan.ops[segment->reduce].in[0]] = kolo_engine_reduced(context, segment->reduce);
}

static void bind(kolo_engine *engine, int segment, int lane, int slot, float *gradient)
{
    const kolo_segment *which = &engine->program->segments[segment];
    kolo_device_context *context = &engine->contexts[which->device];
    kolo_activations *activations = kolo_engine_activations(engine, context->number, slot);
    kolo_blocks blocks = {.weights = &context->weights, .gradient = gradient, .reduced = context->reduced};
    if (gradient && context->gradient) blocks.gradient = context->gradient;
    if (context->gradient || sums_by_segment(engine)) blocks.gradient_first = which->gradients.first;
    if (engine->in_buckets) {
        blocks.buckets = engine->buckets;
        blocks.parts = part_blocks(engine, lane);
    }
    kolo_activations_bind(activations, segment, &context->workspaces[lane], &blocks);
    if (kolo_shard_is_single(engine->shard)) bind_sums(context, which, activations);
}

static kolo_status copy_between(kolo_engine *engine, int op, int slot)
{
    const kolo_plan *plan = &engine->program->plan;
    int from = kolo_plan_base(plan, plan->ops[op].in[0]), to = kolo_plan_base(plan, plan->ops[op].out[0]);
    kolo_device_context *context = &engine->contexts[plan->ops[op].device];
    return engine->streams->copy(context->stream, kolo_engine_activations(engine, context->number, slot)->memory[to],
                                 kolo_engine_activations(engine, plan->values[from].memory, slot)->memory[from],
                                 plan->values[to].bytes);
}

static kolo_status run_op(kolo_engine *engine, int op, int slot, const kolo_call *call)
{
    const kolo_program *program = engine->program;
    const kolo_op *run = &program->plan.ops[op];
    if (run->computed_by >= 0) return KOLO_OK; /* the kernel of operation `computed_by` does its work */
    if (run->kind == KOLO_OP_COPY) return copy_between(engine, op, slot);
    return engine->streams->run(call->stream, program->backend, &program->plan, op, program->kernels[op], call);
}

static kolo_status time_op(kolo_engine *engine, int op, int slot, const kolo_call *call, double *seconds)
{
    KOLO_TRY(engine->streams->synchronize(call->stream));
    double started = kolo_now();
    KOLO_TRY(run_op(engine, op, slot, call));
    KOLO_TRY(engine->streams->synchronize(call->stream));
    seconds[op] += kolo_now() - started;
    return KOLO_OK;
}

static kolo_call call_of(const kolo_engine *engine, const kolo_device_context *context, int64_t microbatch, int lane,
                         int slot)
{
    const kolo_activations *activations = kolo_engine_activations(engine, context->number, slot);
    size_t at = (size_t)(microbatch - engine->shard->first_microbatch) * engine->totals_stride;
    return (kolo_call){.memory = activations->memory,
                       .scratch = context->workspaces[lane].scratch,
                       .first_sample = microbatch * engine->program->plan.microbatch,
                       .labels = activations->labels,
                       .targets = activations->targets,
                       .weights = activations->weights,
                       .totals = context->totals ? (void *)(context->totals + at) : NULL,
                       .stream = context->stream,
                       .step_parameters = context->step_parameters};
}

static kolo_status run_ops(kolo_engine *engine, int segment, int64_t microbatch, int lane, int slot)
{
    const kolo_segment *which = &engine->program->segments[segment];
    const kolo_device_context *context = &engine->contexts[which->device];
    kolo_call call = call_of(engine, context, microbatch, lane, slot);
    kolo_layer_event event = {.begun = kolo_timeline_begin(), .microbatch = microbatch};
    for (int o = which->first; o < which->end; o++) {
        KOLO_TRY(context->seconds ? time_op(engine, o, slot, &call, context->seconds[lane])
                                  : run_op(engine, o, slot, &call));
        if (engine->in_buckets)
            KOLO_TRY(kolo_buckets_insert(engine->buckets, segment, o, microbatch, part_blocks(engine, lane)));
        if (event.begun != 0) kolo_timeline_note_op(engine, o, which->end, &event);
    }
    return KOLO_OK;
}

/* Copies a segment's gradient to home. */
static kolo_status send_gradient(kolo_engine *engine, const kolo_segment *segment, float *gradient, size_t first)
{
    kolo_device_context *context = &engine->contexts[segment->device];
    if (!context->gradient || !gradient || segment->gradients.bytes == 0) return KOLO_OK;
    return engine->streams->copy(context->stream, (char *)gradient + (segment->gradients.first - first),
                                 context->gradient, segment->gradients.bytes);
}

/* Inserts the gradient into the segment's tree. Home adds nodes, so home waits if it is copied from another memory. */
static kolo_status insert_part(kolo_engine *engine, int segment, int64_t microbatch, float *gradient)
{
    const kolo_segment *which = &engine->program->segments[segment];
    kolo_device_context *context = &engine->contexts[which->device];
    KOLO_TRY(send_gradient(engine, which, gradient, which->gradients.first));
    if (context->gradient) KOLO_TRY(kolo_device_context_wait_for(&engine->contexts[0], context));
    return kolo_segment_sums_insert(&engine->segment_sums, segment, microbatch, gradient);
}

static kolo_status run_segment_apart(kolo_engine *engine, int segment, int64_t microbatch, int lane, int slot)
{
    float *gradient;
    KOLO_TRY(kolo_segment_sums_borrow(&engine->segment_sums, segment, &gradient));
    bind(engine, segment, lane, slot, gradient);
    kolo_status status = run_ops(engine, segment, microbatch, lane, slot);
    if (status == KOLO_OK) return insert_part(engine, segment, microbatch, gradient);
    kolo_segment_sums_return(&engine->segment_sums, segment, gradient);
    return status;
}

static kolo_status run_segment_in_parts(kolo_engine *engine, int segment, int64_t microbatch, int lane, int slot)
{
    float **blocks = part_blocks(engine, lane);
    KOLO_TRY(kolo_buckets_borrow(engine->buckets, segment, blocks));
    bind(engine, segment, lane, slot, NULL);
    kolo_status status = run_ops(engine, segment, microbatch, lane, slot);
    if (status != KOLO_OK) kolo_buckets_return(engine->buckets, segment, blocks);
    return status;
}

static kolo_status run_segment(kolo_engine *engine, int segment, int64_t microbatch, int lane, int slot)
{
    KOLO_TRY(take_samples(engine, segment, slot));
    if (engine->in_buckets) return run_segment_in_parts(engine, segment, microbatch, lane, slot);
    if (sums_by_segment(engine)) return run_segment_apart(engine, segment, microbatch, lane, slot);
    bind(engine, segment, lane, slot, engine->gradients[slot]);
    KOLO_TRY(run_ops(engine, segment, microbatch, lane, slot));
    return send_gradient(engine, &engine->program->segments[segment], engine->gradients[slot], 0);
}

/* ---------------------------------------------------------------- one stage of one microbatch */

/* Gathers the samples. The features go to the address that the first segment reads, or into home's activations. */
static kolo_status begin_microbatch(kolo_engine *engine, int64_t microbatch, int lane, int slot, int segment)
{
    bool whole = has_whole_gradient(engine);
    if (whole) KOLO_TRY(kolo_reduction_borrow(engine->tree, &engine->gradients[slot]));
    if (segment >= 0) bind(engine, segment, lane, slot, whole ? engine->gradients[slot] : NULL);
    return gather(engine, microbatch, kolo_engine_activations(engine, 0, slot));
}

static kolo_status keep_outputs(const kolo_engine *engine, int64_t microbatch, int slot)
{
    const kolo_shard *shard = engine->shard;
    const kolo_plan *plan = &engine->program->plan;
    size_t elements = (size_t)kolo_plan_outputs(plan);
    int64_t left = shard->batch->samples - microbatch * plan->microbatch,
            count = left < plan->microbatch ? left : plan->microbatch;
    int memory = plan->values[kolo_plan_base(plan, plan->output)].memory;
    float *target = shard->outputs + (size_t)(microbatch * plan->microbatch) * elements;
    return engine->streams->copy(engine->stream, target,
                                 kolo_activations_output(kolo_engine_activations(engine, memory, slot)),
                                 (size_t)count * elements * sizeof *target);
}

static kolo_status end_microbatch(kolo_engine *engine, int64_t microbatch, int slot)
{
    if (engine->shard->outputs) KOLO_TRY(keep_outputs(engine, microbatch, slot));
    if (!has_whole_gradient(engine)) return KOLO_OK;
    kolo_node node = {.index = microbatch, .gradient = engine->gradients[slot]};
    engine->gradients[slot] = NULL; /* the tree has taken it over */
    return kolo_reduction_insert(engine->tree, node);
}

static kolo_status run_stage_here(const kolo_pipeline_stage *stage, int lane, int64_t microbatch)
{
    kolo_engine *engine = stage->engine;
    int slot = slot_of(engine, lane, microbatch);
    if (stage->gathers) KOLO_TRY(begin_microbatch(engine, microbatch, lane, slot, stage->segment));
    if (stage->segment >= 0) KOLO_TRY(run_segment(engine, stage->segment, microbatch, lane, slot));
    return stage->ends ? end_microbatch(engine, microbatch, slot) : KOLO_OK;
}

static kolo_status run_stage(void *argument, int lane, int64_t microbatch)
{
    const kolo_pipeline_stage *stage = argument;
    const kolo_engine *engine = stage->engine;
    if (engine->shard->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
    kolo_timeline_place before = kolo_timeline_enter_device(engine, stage->context, lane, microbatch);
    kolo_status status = run_stage_here(stage, lane, microbatch);
    kolo_timeline_leave(before);
    return status;
}

/* ---------------------------------------------------------------- a shard */

/* Enqueues a stage for microbatches first … end-1. `before`: the previous stage, or NULL. */
static kolo_status enqueue_stage(kolo_engine *engine, kolo_pipeline_stage *stage, const kolo_pipeline_stage *before,
                                 int64_t first, int64_t end)
{
    kolo_device_context *context = &engine->contexts[stage->context];
    bool backward = stage->segment >= 0 && engine->program->segments[stage->segment].backwards;
    if (before && before->context != stage->context)
        KOLO_TRY(engine->streams->wait_event(context->stream, before->event));
    KOLO_TRY(engine->streams->for_each(context->stream, first, end, backward, run_stage, stage));
    return engine->context_count > 1 ? engine->streams->record_event(context->stream, &stage->event) : KOLO_OK;
}

/* Enqueues stages first … last as a pipeline. The first of them waits for the stage before it, if there is one. */
static kolo_status enqueue_stages(kolo_engine *engine, int first, int last)
{
    const kolo_shard *shard = engine->shard;
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch,
            size = first == last ? microbatches : engine->group;
    int64_t groups = size > 0 ? (microbatches + size - 1) / size : 0;
    for (int64_t tick = 0; tick < groups + last - first; tick++)
        for (int s = last; s >= first; s--) {
            int64_t group = tick - (s - first), begin = shard->first_microbatch + group * size, end = begin + size;
            if (group < 0 || group >= groups) continue;
            if (end > shard->end_microbatch) end = shard->end_microbatch;
            KOLO_TRY(enqueue_stage(engine, &engine->stages[s], s > 0 ? &engine->stages[s - 1] : NULL, begin, end));
        }
    return KOLO_OK;
}

static int reduction_of(const kolo_engine *engine, int stage)
{
    int segment = engine->stages[stage].segment;
    return segment < 0 ? -1 : engine->program->segments[segment].reduce;
}

/* Enqueues a reduction behind its stage. Records the stage's event again, so that the next stage waits for both. */
static kolo_status enqueue_reduction(kolo_engine *engine, kolo_pipeline_stage *stage, int op)
{
    kolo_device_context *context = &engine->contexts[engine->program->plan.ops[op].device];
    if (context->number != stage->context)
        KOLO_TRY(kolo_device_context_wait_for(context, &engine->contexts[stage->context]));
    KOLO_TRY(kolo_engine_reduce(engine, op));
    if (engine->context_count == 1) return KOLO_OK;
    if (context->number != stage->context)
        KOLO_TRY(kolo_device_context_wait_for(&engine->contexts[stage->context], context));
    return engine->streams->record_event(engine->contexts[stage->context].stream, &stage->event);
}

/* Where the process has no microbatches, the buckets are complete when the stages would have been passed: the other
 * members wait for them. One engine of those that use the buckets does it. */
static kolo_status pass_buckets(kolo_engine *engine, int first, int last)
{
    bool empty = engine->in_buckets && engine->buckets->expected == 0 && engine->buckets->program == engine->program;
    for (int s = first; s <= last && empty; s++)
        if (engine->stages[s].segment >= 0) KOLO_TRY(kolo_buckets_pass(engine->buckets, engine->stages[s].segment));
    return KOLO_OK;
}

static kolo_status enqueue_all_stages(kolo_engine *engine)
{
    for (int first = 0; first < engine->stage_count;) {
        int last = first;
        while (last < engine->stage_count - 1 && reduction_of(engine, last) < 0) last++;
        KOLO_TRY(enqueue_stages(engine, first, last));
        KOLO_TRY(pass_buckets(engine, first, last));
        int op = reduction_of(engine, last);
        if (op >= 0) KOLO_TRY(enqueue_reduction(engine, &engine->stages[last], op));
        first = last + 1;
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- the beginning and the end of a shard */

static size_t totals_bytes(const kolo_engine *engine)
{
    return (size_t)(engine->shard->end_microbatch - engine->shard->first_microbatch) * engine->totals_stride;
}

static kolo_status begin_contexts(kolo_engine *engine)
{
    kolo_device_context *home = &engine->contexts[0];
    if (home->totals) KOLO_TRY(engine->streams->clear(engine->stream, home->totals, totals_bytes(engine)));
    for (int c = 1; c < engine->context_count; c++) {
        kolo_device_context *context = &engine->contexts[c];
        KOLO_TRY(kolo_device_context_wait_for(context, home));
        if (!kolo_device_context_owns(context)) continue;
        KOLO_TRY(engine->streams->copy(context->stream, context->step_parameters, home->step_parameters,
                                       sizeof *home->step_parameters));
        if (context->totals) KOLO_TRY(engine->streams->clear(context->stream, context->totals, totals_bytes(engine)));
    }
    return KOLO_OK;
}

/* Copies the totals of the contexts to home, one behind the other in the order of the contexts, and sums them. */
static kolo_status end_contexts(kolo_engine *engine)
{
    size_t stride = (size_t)engine->totals_room * engine->totals_stride, bytes = totals_bytes(engine);
    int part = engine->contexts[0].totals != NULL;
    void *totals = engine->totals;
    for (int m = 1; m < engine->program->memories; m++) {
        kolo_device_context *context = &engine->contexts[m];
        if (context->totals)
            KOLO_TRY(engine->streams->copy(context->stream, engine->parts + (size_t)part++ * stride, context->totals,
                                           bytes));
        KOLO_TRY(kolo_device_context_wait_for(&engine->contexts[0], context));
    }
    if (engine->part_count == 0) return KOLO_OK;
    return engine->streams->sum(engine->stream, totals, engine->parts, stride, engine->part_count,
                                (int64_t)(bytes / sizeof(double)));
}

static void return_gradients(kolo_engine *engine)
{
    for (int i = 0; i < engine->slots; i++) {
        if (engine->gradients[i]) kolo_reduction_return(engine->tree, engine->gradients[i]);
        engine->gradients[i] = NULL;
    }
}

/* Waits for the streams of all devices, also after a failure. Returns the first failure. */
static kolo_status wait_for_contexts(kolo_engine *engine, kolo_status status)
{
    kolo_failure failure = kolo_failure_take();
    if (status != KOLO_OK) failure.code = status;
    for (int c = engine->context_count - 1; c >= 0; c--) {
        kolo_status ended = engine->streams->synchronize(engine->contexts[c].stream);
        kolo_failure other = kolo_failure_take();
        if (status != KOLO_OK || ended == KOLO_OK) continue;
        status = ended;
        failure = other;
        failure.code = ended;
    }
    if (failure.code != KOLO_OK) kolo_failure_give(&failure);
    return status;
}

static kolo_status enqueue_between(kolo_engine *engine)
{
    KOLO_TRY(begin_contexts(engine));
    KOLO_TRY(enqueue_all_stages(engine));
    return end_contexts(engine);
}

static kolo_status enqueue(kolo_engine *engine)
{
    if (sums_by_segment(engine))
        kolo_segment_sums_begin(&engine->segment_sums, kolo_batch_microbatches(engine->shard->batch));
    kolo_status status = enqueue_between(engine);
    if (engine->streams->steps_ahead == 0 && engine->context_count > 1) status = wait_for_contexts(engine, status);
    KOLO_TRY(status);
    return sums_by_segment(engine) ? kolo_segment_sums_finish(&engine->segment_sums, engine->tree) : KOLO_OK;
}

/* Takes the step parameters, computes the microbatches and the penalty, and copies the totals to the host. */
static kolo_status enqueue_whole(kolo_engine *engine, const kolo_shard *shard)
{
    kolo_totals_extras *behind =
        kolo_engine_extras(engine, engine->totals, shard->end_microbatch - shard->first_microbatch);
    KOLO_TRY(engine->streams->take_step_parameters(engine->stream, engine->step_parameters, engine->parameter_ring,
                                                   engine->scaling, &behind->seen));
    KOLO_TRY(enqueue(engine));
    if (engine->penalised)
        KOLO_TRY(engine->program->backend->updates->penalty(engine->stream, engine->penalised, &behind->penalty));
    return kolo_engine_copy_totals(engine, shard);
}

kolo_status kolo_engine_enqueue(kolo_engine *engine, const kolo_shard *shard)
{
    engine->shard = shard;
    kolo_status status = enqueue_whole(engine, shard);
    if (status != KOLO_OK) return_gradients(engine);
    return status;
}
