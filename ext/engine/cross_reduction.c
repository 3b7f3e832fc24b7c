/* The cross-microbatch reduction: adds up the partial sums of all microbatches, and if the layer is .synchronized,
 * those of all members of a group. See engine.h.
 *
 * The bits of a sum of the members' sums would depend on which member computed which microbatch. In deterministic mode
 * every member therefore gets the partials of all microbatches of the batch: each fills in its own rows of an array of
 * zeros, and an all-reduce adds the arrays. That is exact in any order, because all summands of an element but one are
 * zero. Then each member adds the rows in the order of the microbatches. */
#include <stdlib.h>

#include "engine/engine.h"

bool kolo_engine_reduces_over_group(const kolo_engine *engine, const kolo_shard *shard, int op)
{
    return engine->program->plan.ops[op].across && shard->group && shard->group->size > 1;
}

void *kolo_engine_reduced(const kolo_device_context *context, int op)
{
    const kolo_plan *plan = &context->program->plan;
    return (char *)context->reduced + plan->values[plan->ops[op].out[0]].offset;
}

/* ---------------------------------------------------------------- memory */

bool kolo_program_reduces_over_group(const kolo_program *program)
{
    bool reduces = false;
    for (int o = 0; o < program->plan.op_count; o++)
        reduces = reduces || (program->plan.ops[o].kind == KOLO_OP_REDUCE && program->plan.ops[o].across);
    return reduces;
}

/* The bytes of the longest partial that a context reduces over the group. If the contexts share one memory, home counts
 * those of all. */
static size_t longest(const kolo_device_context *context)
{
    const kolo_plan *plan = &context->program->plan;
    size_t bytes = 0;
    for (int o = 0; o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        bool here = context->program->memory[op->device] == context->memory;
        if (op->kind != KOLO_OP_REDUCE || !op->across || !here) continue;
        size_t sum = (size_t)kolo_shape_count(plan->values[op->out[0]].shape) * sizeof(double);
        if (sum > bytes) bytes = sum;
    }
    return bytes;
}

kolo_status kolo_engine_reserve_reductions(kolo_engine *engine, int64_t samples)
{
    const kolo_program *program = engine->program;
    int64_t microbatches = (samples + program->plan.microbatch - 1) / program->plan.microbatch;
    if (!program->model->settings.deterministic || microbatches <= engine->reduction_room) return KOLO_OK;
    for (int c = 0; c < program->memories; c++) {
        kolo_device_context *context = &engine->contexts[c];
        context->streams->release(context->stream, context->partials);
        context->partials = NULL;
        size_t bytes = (size_t)microbatches * longest(context);
        if (bytes == 0) continue;
        KOLO_TRY(context->streams->allocate(context->stream, bytes, "sums over the microbatches",
                                            (void **)&context->partials));
    }
    engine->reduction_room = microbatches;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- one reduction */

/* The address of a microbatch's partial: in its activations, or the reduced sum's if there is only one microbatch. */
static const char *partial_of(const kolo_engine *engine, const kolo_device_context *context, int op, int64_t microbatch)
{
    const kolo_plan *plan = &context->program->plan;
    const kolo_value *partial = &plan->values[plan->ops[op].in[0]];
    if (kolo_shard_is_single(engine->shard)) return kolo_engine_reduced(context, op);
    return context->activation_blocks + partial->offset +
           (size_t)(microbatch - engine->shard->first_microbatch) * context->activation_stride;
}

static kolo_status sum_shard(const kolo_engine *engine, const kolo_device_context *context, int op, int64_t count)
{
    const kolo_shard *shard = engine->shard;
    if (kolo_shard_is_single(shard)) return KOLO_OK;
    return context->streams->sum(context->stream, kolo_engine_reduced(context, op),
                                 partial_of(engine, context, op, shard->first_microbatch), context->activation_stride,
                                 (int)(shard->end_microbatch - shard->first_microbatch), count);
}

/* Sums over the group through the host's memory, for contexts whose memory the engine's comm cannot use. */
static kolo_status sum_on_host(const kolo_engine *engine, const kolo_device_context *context, double *values,
                               int64_t count)
{
    const kolo_stream_kind *streams = context->streams;
    kolo_comm *group = engine->shard->group;
    size_t bytes = (size_t)count * sizeof *values;
    double *sums = malloc(bytes);
    if (!sums) return kolo_fail_memory(bytes, "sums over the microbatches");
    kolo_status status = streams->copy(context->stream, sums, values, bytes);
    if (status == KOLO_OK) status = streams->synchronize(context->stream);
    if (status == KOLO_OK) status = group->kind->allreduce(group, sums, count, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM);
    if (status == KOLO_OK) status = streams->copy(context->stream, values, sums, bytes);
    if (status == KOLO_OK) status = streams->synchronize(context->stream); /* `sums` is freed next */
    free(sums);
    return status;
}

/* The engine's comm can only use memory of home's stream. */
static kolo_status sum_over_group(const kolo_engine *engine, const kolo_device_context *context, double *values,
                                  int64_t count)
{
    if (context->number > 0) return sum_on_host(engine, context, values, count);
    return engine->comm->kind->allreduce(engine->comm, values, count, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM);
}

static kolo_status sum_batch(const kolo_engine *engine, const kolo_device_context *context, int op, int64_t count)
{
    const kolo_shard *shard = engine->shard;
    const kolo_stream_kind *streams = context->streams;
    double *partials = engine->contexts[context->memory].partials;
    int64_t microbatches = kolo_batch_microbatches(shard->batch);
    size_t row = (size_t)count * sizeof(double);
    KOLO_TRY(streams->clear(context->stream, partials, (size_t)microbatches * row));
    for (int64_t microbatch = shard->first_microbatch; microbatch < shard->end_microbatch; microbatch++)
        KOLO_TRY(streams->copy(context->stream, partials + microbatch * count,
                               partial_of(engine, context, op, microbatch), row));
    KOLO_TRY(sum_over_group(engine, context, partials, microbatches * count));
    return streams->sum(context->stream, kolo_engine_reduced(context, op), partials, row, (int)microbatches, count);
}

kolo_status kolo_engine_reduce(kolo_engine *engine, int op)
{
    const kolo_plan *plan = &engine->program->plan;
    const kolo_device_context *context = &engine->contexts[plan->ops[op].device];
    int64_t count = kolo_shape_count(plan->values[plan->ops[op].out[0]].shape);
    bool others = kolo_engine_reduces_over_group(engine, engine->shard, op);
    if (others && engine->shard->deterministic) return sum_batch(engine, context, op, count);
    KOLO_TRY(sum_shard(engine, context, op, count));
    return others ? sum_over_group(engine, context, kolo_engine_reduced(context, op), count) : KOLO_OK;
}
