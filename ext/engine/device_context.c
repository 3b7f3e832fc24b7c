/* Allocates the memory of a device context: see device_context.h. */
#include "engine/device_context.h"

#include <stdlib.h>
#include <string.h>

static kolo_status allocate(kolo_device_context *context, size_t bytes, const char *what, void *memory)
{
    return context->streams->allocate(context->stream, bytes, what, memory);
}

/* ---------------------------------------------------------------- weights */

/* A range of offsets in bytes that covers all weights of a context. */
typedef struct extent {
    size_t first, end;
} extent;

static void stretch(extent *whole, size_t first, size_t count)
{
    if (whole->end == 0 || first < whole->first) whole->first = first;
    if (first + count > whole->end) whole->end = first + count;
}

static bool is_transferred(const kolo_device_context *context, const kolo_value *value)
{
    return value->kind == KOLO_VALUE_WEIGHTS && kolo_value_has_memory(value) && value->memory == context->number;
}

static size_t place_of(const kolo_device_context *context, const kolo_value *value)
{
    if (!value->in_place) return value->offset;
    return (size_t)context->program->model->parameters[value->parameter].offset * sizeof(float);
}

static size_t bytes_of(const kolo_value *value)
{
    return value->in_place ? (size_t)kolo_shape_count(value->shape) * sizeof(float) : value->bytes;
}

/* Extends the last transfer if at most padding separates it from the value; else adds a transfer. */
static void add_transfer(kolo_device_context *context, bool in_place, size_t from, size_t bytes)
{
    kolo_weight_transfer *last = context->transfer_count > 0 ? &context->transfers[context->transfer_count - 1] : NULL;
    bool follows = last && last->in_place == in_place && from > last->from && from - last->from - last->bytes < 64;
    if (follows) last->bytes = from + bytes - last->from;
    else context->transfers[context->transfer_count++] = (kolo_weight_transfer){in_place, from, bytes};
}

static void add_transfers(kolo_device_context *context, bool in_place)
{
    for (int v = 0; v < context->program->plan.value_count; v++) {
        const kolo_value *value = &context->program->plan.values[v];
        if (is_transferred(context, value) && value->in_place == in_place)
            add_transfer(context, in_place, place_of(context, value), bytes_of(value));
    }
}

/* Allocates memory for the range. Sets *base to the address of offset 0, which may be outside that memory. */
static kolo_status open_part(kolo_device_context *context, extent part, char **block, void **base)
{
    size_t bytes = part.end - part.first;
    *base = NULL;
    if (bytes == 0) return KOLO_OK;
    KOLO_TRY(allocate(context, bytes, "a model's weights", block));
    *base = (void *)((uintptr_t)*block - part.first);
    return KOLO_OK;
}

static kolo_status open_some_weights(kolo_device_context *context)
{
    const kolo_plan *plan = &context->program->plan;
    extent parts[2] = {{0, 0}, {0, 0}}; /* packed, in place */
    void *canonical;
    for (int v = 0; v < plan->value_count; v++)
        if (is_transferred(context, &plan->values[v]))
            stretch(&parts[plan->values[v].in_place], place_of(context, &plan->values[v]), bytes_of(&plan->values[v]));
    parts[0].first = parts[0].first / 256 * 256; /* the same alignment as at home */
    parts[1].first = parts[1].first / 256 * 256;
    KOLO_TRY(open_part(context, parts[0], &context->packed_block, &context->weights.packed));
    KOLO_TRY(open_part(context, parts[1], &context->weights_block, &canonical));
    context->weights.canonical = canonical;
    context->transfers = calloc((size_t)plan->value_count + 1, sizeof *context->transfers);
    if (!context->transfers)
        return kolo_fail_memory((size_t)plan->value_count * sizeof *context->transfers, "a device's context");
    add_transfers(context, false);
    add_transfers(context, true);
    return KOLO_OK;
}

static kolo_status open_packed(kolo_device_context *context, void *borrowed)
{
    if (!borrowed)
        KOLO_TRY(allocate(context, context->program->weights_bytes + 1, "a replica's weights", &context->packed_block));
    context->weights.packed = borrowed ? borrowed : context->packed_block;
    return KOLO_OK;
}

kolo_status kolo_device_context_wait_for(kolo_device_context *context, kolo_device_context *other)
{
    KOLO_TRY(other->streams->record_event(other->stream, &other->event));
    return context->streams->wait_event(context->stream, other->event);
}

kolo_status kolo_device_context_copy_weights(kolo_device_context *context, const kolo_device_context *home)
{
    for (int i = 0; i < context->transfer_count; i++) {
        const kolo_weight_transfer *run = &context->transfers[i];
        const char *from = run->in_place ? (const char *)home->weights.canonical : home->weights.packed;
        char *to = run->in_place ? (char *)(uintptr_t)context->weights.canonical : context->weights.packed;
        to = (char *)((uintptr_t)to + run->from);
        KOLO_TRY(context->streams->copy(context->stream, to, from + run->from, run->bytes));
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- open and close */

/* Custom operations read the samples' weights and may add to the losses, as the loss does. */
static bool wants_labels(const kolo_device_context *context)
{
    const kolo_plan *plan = &context->program->plan;
    bool receives_labels = false;
    for (int o = 0; o < plan->op_count; o++) {
        kolo_op_kind kind = plan->ops[o].kind;
        bool asks = kind == KOLO_OP_LOSS || kind == KOLO_OP_DENSE_LOSS || kind == KOLO_OP_CUSTOM;
        receives_labels = receives_labels || (asks && context->program->memory[plan->ops[o].device] == context->memory);
    }
    return receives_labels;
}

static size_t largest_gradient(const kolo_device_context *context)
{
    size_t bytes = 0;
    for (int s = 0; s < context->program->segment_count; s++) {
        const kolo_segment *segment = &context->program->segments[s];
        if (segment->device == context->number && segment->gradients.bytes > bytes) bytes = segment->gradients.bytes;
    }
    return bytes;
}

static kolo_status open_lanes(kolo_device_context *context)
{
    const kolo_program *program = context->program;
    size_t values = program->workspace_bytes[context->memory];
    context->lanes = context->streams->lanes(context->stream);
    context->workspaces = calloc((size_t)context->lanes, sizeof *context->workspaces);
    if (!context->workspaces)
        return kolo_fail_memory((size_t)context->lanes * sizeof *context->workspaces, "an engine");
    for (int i = 0; i < context->lanes; i++) {
        kolo_workspace *workspace = &context->workspaces[i];
        KOLO_TRY(allocate(context, values + 64, "the activations of a microbatch", &workspace->block));
        KOLO_TRY(allocate(context, program->scratch_bytes + 64, "an operation's workspace", &workspace->scratch));
    }
    return KOLO_OK;
}

static kolo_status open_arrays(kolo_device_context *context, const kolo_device_context *home, void *borrowed)
{
    const kolo_program *program = context->program;
    context->receives_labels = wants_labels(context);
    KOLO_TRY(home ? open_some_weights(context) : open_packed(context, borrowed));
    if (home) KOLO_TRY(allocate(context, largest_gradient(context) + 1, "a gradient", &context->gradient));
    KOLO_TRY(allocate(context, program->reduced_bytes + 1, "sums over the microbatches", &context->reduced));
    return allocate(context, sizeof *context->step_parameters, "a step's numbers", &context->step_parameters);
}

kolo_status kolo_device_context_open(kolo_device_context *context, const kolo_device_context *home, void *borrowed)
{
    KOLO_TRY(open_lanes(context));
    if (kolo_device_context_owns(context)) return open_arrays(context, home, borrowed);
    context->weights = home->weights;
    context->reduced = home->reduced;
    context->step_parameters = home->step_parameters;
    context->receives_labels = true;
    return KOLO_OK;
}

static void close_lanes(kolo_device_context *context)
{
    for (int i = 0; i < context->lanes; i++) {
        if (context->workspaces) context->streams->release(context->stream, context->workspaces[i].block);
        if (context->workspaces) context->streams->release(context->stream, context->workspaces[i].scratch);
        if (context->seconds) free(context->seconds[i]);
    }
    free(context->workspaces);
    free(context->seconds);
}

void kolo_device_context_close(kolo_device_context *context)
{
    const kolo_stream_kind *streams = context->streams;
    if (!context->stream) return;
    void *const memory[] = {context->weights_block, context->packed_block, context->gradient,
                            context->reduced,       context->partials,     context->step_parameters};
    kolo_device_context_close_activations(context);
    bool owns = kolo_device_context_owns(context);
    for (size_t i = 0; owns && i < sizeof memory / sizeof *memory; i++) streams->release(context->stream, memory[i]);
    close_lanes(context);
    streams->free_event(context->stream, context->event);
    free(context->transfers);
}

/* ---------------------------------------------------------------- activations */

/* Allocates labels, targets and weights of samples: on home, and on contexts whose operations read them. */
static kolo_status open_samples(kolo_device_context *context, kolo_activations *activations)
{
    const kolo_plan *plan = &context->program->plan;
    size_t numbers = (size_t)(plan->microbatch * kolo_plan_outputs(plan));
    size_t rows = (size_t)(plan->microbatch * kolo_plan_rows(plan));
    if (context->number > 0 && !context->receives_labels) return KOLO_OK;
    if (plan->labels) KOLO_TRY(allocate(context, rows * sizeof(int32_t), "labels", &activations->labels));
    if (plan->targets) KOLO_TRY(allocate(context, numbers * sizeof(float), "targets", &activations->targets));
    if (!plan->weights) return KOLO_OK;
    return allocate(context, (size_t)plan->microbatch * sizeof(float), "weights of samples", &activations->weights);
}

static kolo_status open_activations(kolo_device_context *context, int number)
{
    const kolo_plan *plan = &context->program->plan;
    kolo_activations *made = context->activation_sets[number] = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "activations");
    made->program = context->program;
    made->block = context->activation_blocks + (size_t)number * context->activation_stride;
    made->memory = calloc((size_t)plan->value_count, sizeof *made->memory);
    if (!made->memory) return kolo_fail_memory((size_t)plan->value_count * sizeof *made->memory, "activations");
    /* home gathers the features, whichever device reads them */
    if (context->program->devices > 1 && context->number == 0)
        made->memory[plan->input] = (char *)made->block + plan->values[plan->input].offset;
    return open_samples(context, made);
}

static void close_activations(kolo_device_context *context, kolo_activations *activations)
{
    if (!activations) return;
    context->streams->release(context->stream, activations->labels);
    context->streams->release(context->stream, activations->targets);
    context->streams->release(context->stream, activations->weights);
    free(activations->memory);
    free(activations);
}

void kolo_device_context_close_activations(kolo_device_context *context)
{
    if (!kolo_device_context_owns(context)) return;
    for (int i = 0; i < context->activation_set_count; i++) close_activations(context, context->activation_sets[i]);
    context->streams->release(context->stream, context->activation_blocks);
    free(context->activation_sets);
    context->activation_sets = NULL;
    context->activation_blocks = NULL;
    context->activation_set_count = 0;
}

kolo_status kolo_device_context_open_activations(kolo_device_context *context, const kolo_device_context *home,
                                                 int count)
{
    kolo_device_context_close_activations(context);
    if (!kolo_device_context_owns(context)) {
        context->activation_sets = home->activation_sets;
        context->activation_blocks = home->activation_blocks;
        context->activation_stride = home->activation_stride;
        return KOLO_OK;
    }
    context->activation_stride = kolo_align(context->program->activation_bytes[context->memory] + 1, KOLO_ALIGNMENT);
    size_t bytes = (size_t)count * context->activation_stride;
    KOLO_TRY(allocate(context, bytes, "the activations of a batch", &context->activation_blocks));
    context->activation_sets = calloc((size_t)count, sizeof *context->activation_sets);
    if (!context->activation_sets)
        return kolo_fail_memory((size_t)count * sizeof *context->activation_sets, "activations");
    while (context->activation_set_count < count) KOLO_TRY(open_activations(context, context->activation_set_count++));
    return KOLO_OK;
}
