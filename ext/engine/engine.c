/* Opens and closes an engine, and loads its weights: see engine.h. */
#include "engine/engine.h"

#include <stdlib.h>

#include "core/stack.h"

/* ---------------------------------------------------------------- contexts */

static kolo_status open_stream(kolo_engine *engine, int number, kolo_engine_place place)
{
    kolo_program *program = engine->program;
    kolo_device_context *context = &engine->contexts[number];
    int threads = place.threads / engine->context_count;
    int device = kolo_model_device(program->model, place.replica, program->device[number]);
    *context = (kolo_device_context){
        .program = program, .streams = engine->streams, .number = number, .memory = program->memory[number]};
    if (number == 0) program->plan.device_number = device;
    if (number == 0 && place.stream) {
        context->stream = place.stream;
        return KOLO_OK;
    }
    return engine->streams->open(&(kolo_stream_place){.backend = program->backend,
                                                      .device = device,
                                                      .threads = threads > 0 ? threads : 1,
                                                      .concurrent = engine->context_count > 1,
                                                      .gate = place.gate},
                                 &context->stream);
}

static kolo_status open_streams(kolo_engine *engine, kolo_engine_place place)
{
    kolo_program *program = engine->program;
    int count = program->devices > 0 ? program->devices : 1;
    engine->contexts = calloc((size_t)count, sizeof *engine->contexts);
    if (!engine->contexts) return kolo_fail_memory((size_t)count * sizeof *engine->contexts, "an engine");
    engine->context_count = count;
    engine->borrows_stream = place.stream;
    for (int c = 0; c < count; c++) {
        KOLO_TRY(open_stream(engine, c, place));
        program->streams[c] = engine->contexts[c].stream;
    }
    engine->stream = program->plan.stream = program->streams[0];
    return KOLO_OK;
}

static kolo_status open_contexts(kolo_engine *engine, kolo_engine_place place)
{
    void *packed = place.packed ? place.packed->contexts[0].weights.packed : NULL;
    for (int c = 0; c < engine->context_count; c++) {
        kolo_device_context *context = &engine->contexts[c];
        KOLO_TRY(kolo_device_context_open(context, c > 0 ? &engine->contexts[0] : NULL, packed));
        if (context->memory > 0) engine->part_count += context->receives_labels;
        if (context->lanes > engine->group) engine->group = context->lanes;
    }
    if (engine->part_count > 0) engine->part_count += engine->contexts[0].receives_labels;
    engine->step_parameters = engine->contexts[0].step_parameters;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- stages */

static void add_stage(kolo_engine *engine, int context, int segment)
{
    engine->stages[engine->stage_count++] =
        (kolo_pipeline_stage){.engine = engine, .context = context, .segment = segment};
}

/* Home gathers the samples and gets the gradients and outputs, so the first and the last stage are home's. */
static kolo_status list_stages(kolo_engine *engine)
{
    const kolo_program *program = engine->program;
    int last = program->segment_count - 1;
    engine->stages = calloc((size_t)program->segment_count + 2, sizeof *engine->stages);
    if (!engine->stages) return kolo_fail_memory((size_t)program->segment_count * sizeof *engine->stages, "an engine");
    if (program->segments[0].device != 0) add_stage(engine, 0, -1);
    for (int s = 0; s <= last; s++) add_stage(engine, program->segments[s].device, s);
    if (program->segments[last].device != 0 || program->segments[last].reduce >= 0) add_stage(engine, 0, -1);
    engine->stages[0].gathers = true;
    engine->stages[engine->stage_count - 1].ends = true;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- open and close */

static kolo_status open_engine(kolo_engine *engine, const kolo_model *model, kolo_purpose purpose, int microbatch,
                               kolo_engine_place place)
{
    KOLO_TRY(kolo_program_begin(model, purpose, microbatch, &engine->program));
    KOLO_TRY(open_streams(engine, place));
    KOLO_TRY(kolo_program_complete(engine->program));
    KOLO_TRY(open_contexts(engine, place));
    KOLO_TRY(list_stages(engine));
    const kolo_plan *plan = &engine->program->plan;
    engine->totals_stride = kolo_align((size_t)(plan->metric_sums + 4) * sizeof(double), KOLO_ALIGNMENT);
    KOLO_TRY(kolo_reduction_open(0, (kolo_reduction_memory){0}, &engine->totals_tree));
    if (engine->program->reduces && plan->training)
        KOLO_TRY(kolo_segment_sums_open(engine->program, &engine->segment_sums));
    return engine->streams->allocate_host(engine->stream, (KOLO_STEPS_AHEAD + 1) * sizeof *engine->parameter_ring,
                                          (void **)&engine->parameter_ring);
}

kolo_status kolo_engine_open(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_engine_place place,
                             kolo_engine **engine)
{
    KOLO_TRY(kolo_stack_grow());
    KOLO_TRY(kolo_stack_grow());
    kolo_engine *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an engine");
    made->streams = model->backend->streams;
    kolo_status status = open_engine(made, model, purpose, microbatch, place);
    if (status == KOLO_OK) *engine = made;
    else kolo_engine_close(&made);
    return status;
}

static void close_bucket_events(kolo_engine *engine)
{
    for (int i = 0; i < engine->bucket_count; i++)
        engine->streams->free_event(engine->stream, engine->bucket_events[i]);
    free(engine->bucket_events);
}

static void close_stages(kolo_engine *engine)
{
    for (int s = 0; s < engine->stage_count; s++)
        engine->streams->free_event(engine->contexts[engine->stages[s].context].stream, engine->stages[s].event);
    free(engine->stages);
}

void kolo_engine_close(kolo_engine **engine)
{
    kolo_engine *closed = *engine;
    *engine = NULL;
    if (!closed) return;
    if (closed->stream) {
        kolo_engine_forget_graphs(closed);
        kolo_segment_sums_close(&closed->segment_sums);
        kolo_dataset_cache_close(&closed->cache);
        if (closed->imported)
            closed->streams->discard(closed->stream, closed->imported,
                                     (void *)(uintptr_t)closed->contexts[0].weights.canonical);
        kolo_engine_close_memory(closed);
        close_bucket_events(closed);
        close_stages(closed);
    }
    kolo_reduction_close(&closed->totals_tree);
    for (int c = closed->context_count - 1; c >= 0; c--) kolo_device_context_close(&closed->contexts[c]);
    if (closed->program) kolo_program_close(&closed->program);
    for (int c = closed->context_count - 1; c >= closed->borrows_stream; c--)
        if (closed->contexts[c].stream) closed->streams->close(&closed->contexts[c].stream);
    free(closed->contexts);
    free(closed->part_blocks);
    free(closed);
}

kolo_status kolo_engine_time(kolo_engine *engine)
{
    size_t count = (size_t)engine->program->plan.op_count;
    for (int c = 0; c < engine->context_count; c++) {
        kolo_device_context *context = &engine->contexts[c];
        context->seconds = calloc((size_t)context->lanes, sizeof *context->seconds);
        if (!context->seconds) return kolo_fail_memory((size_t)context->lanes * sizeof(double *), "a profile");
        for (int i = 0; i < context->lanes; i++) {
            context->seconds[i] = calloc(count, sizeof(double));
            if (!context->seconds[i]) return kolo_fail_memory(count * sizeof(double), "a profile");
        }
    }
    return KOLO_OK;
}

double kolo_engine_seconds(const kolo_engine *engine, int op)
{
    double seconds = 0;
    for (int c = 0; c < engine->context_count; c++) {
        const kolo_device_context *context = &engine->contexts[c];
        for (int i = 0; context->seconds && i < context->lanes; i++) seconds += context->seconds[i][op];
    }
    return seconds;
}

kolo_status kolo_engine_reduction(const kolo_engine *engine, kolo_reduction **reduction)
{
    return kolo_gradients_reduction(&engine->program->gradients, reduction);
}

kolo_status kolo_engine_use_buckets(kolo_engine *engine, kolo_buckets *buckets)
{
    size_t count = (size_t)engine->contexts[0].lanes * (size_t)buckets->part_count;
    engine->part_blocks = calloc(count, sizeof *engine->part_blocks);
    engine->bucket_events = calloc((size_t)buckets->count, sizeof *engine->bucket_events);
    if (!engine->part_blocks || !engine->bucket_events)
        return kolo_fail_memory(count * sizeof *engine->part_blocks, "the buckets of gradients");
    engine->bucket_count = buckets->count;
    engine->buckets = buckets;
    return KOLO_OK;
}

void kolo_engine_use_no_buckets(kolo_engine *engine)
{
    free(engine->part_blocks);
    free(engine->bucket_events); /* all NULL: no event was recorded */
    engine->part_blocks = NULL;
    engine->bucket_events = NULL;
    engine->bucket_count = 0;
    engine->buckets = NULL;
    engine->in_buckets = false;
}

int kolo_engine_lanes(const kolo_engine *engine)
{
    return engine->contexts[0].lanes;
}

kolo_status kolo_engine_fetch_gradient(const kolo_engine *engine, const float *gradient, float *canonical)
{
    const kolo_stream_kind *streams = engine->streams;
    size_t bytes = (size_t)engine->program->model->weight_count * sizeof *canonical;
    void *unpacked = NULL;
    KOLO_TRY(streams->import(engine->stream, canonical, bytes, "a gradient", &unpacked));
    kolo_status status = streams->clear(engine->stream, unpacked, bytes);
    if (status == KOLO_OK) status = kolo_program_unpack(engine->program, gradient, unpacked);
    if (status == KOLO_OK) status = streams->copy(engine->stream, canonical, unpacked, bytes);
    if (status == KOLO_OK) status = streams->synchronize(engine->stream);
    streams->discard(engine->stream, canonical, unpacked);
    return status;
}

/* ---------------------------------------------------------------- weights */

kolo_status kolo_engine_copy_weights(kolo_engine *engine)
{
    kolo_device_context *home = &engine->contexts[0];
    for (int m = 1; m < engine->program->memories; m++) {
        KOLO_TRY(kolo_device_context_wait_for(&engine->contexts[m], home));
        KOLO_TRY(kolo_device_context_copy_weights(&engine->contexts[m], home));
    }
    for (int m = 1; m < engine->program->memories; m++)
        KOLO_TRY(kolo_device_context_wait_for(home, &engine->contexts[m]));
    return KOLO_OK;
}

kolo_status kolo_engine_pack(kolo_engine *engine, int part, int parts)
{
    const kolo_program_weights *weights = &engine->contexts[0].weights;
    KOLO_TRY(kolo_program_pack(engine->program, weights->canonical, weights->packed, part, parts));
    return kolo_engine_copy_weights(engine);
}

void kolo_engine_set_weights(kolo_engine *engine, const float *weights)
{
    for (int c = 0; c < engine->context_count; c++)
        if (c == 0 || !kolo_device_context_owns(&engine->contexts[c])) engine->contexts[c].weights.canonical = weights;
}

kolo_status kolo_engine_load(kolo_engine *engine, const float *weights)
{
    size_t bytes = (size_t)engine->program->model->weight_count * sizeof *weights;
    void *placed = engine->imported ? (void *)(uintptr_t)engine->contexts[0].weights.canonical : NULL;
    KOLO_TRY(engine->streams->import(engine->stream, weights, bytes, "a model's weights", &placed));
    engine->imported = weights;
    kolo_engine_set_weights(engine, placed);
    return kolo_engine_pack(engine, 0, 1);
}
