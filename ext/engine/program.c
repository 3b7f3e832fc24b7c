/* Opens programs, packs weights and binds values to memory: see program.h. */
#include "engine/program.h"

#include <stdlib.h>
#include <string.h>

#include "plan/copies.h"
#include "plan/fusion.h"
#include "model/lower.h"
#include "engine/buckets.h"
#include "engine/fallback.h"
#include "engine/memory_plan.h"

/* ---------------------------------------------------------------- programs */

static kolo_status prepare(kolo_program *program)
{
    kolo_plan *plan = &program->plan;
    program->kernels = calloc((size_t)plan->op_count, sizeof *program->kernels);
    if (!program->kernels) return kolo_fail_memory((size_t)plan->op_count * sizeof *program->kernels, "a program");
    for (int o = 0; o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        bool engines = op->kind == KOLO_OP_REDUCE || op->kind == KOLO_OP_COPY;
        if (engines || op->computed_by >= 0) continue;
        plan->stream = program->streams[plan->ops[o].device];
        kolo_status status = program->backend->prepare(plan, o, &program->kernels[o]);
        if (status == KOLO_OK) continue;
        kolo_failure failure = kolo_failure_take();
        return kolo_fail(status, "%s: %s", kolo_layer_text(&program->model->layers[plan->ops[o].layer]), failure.text);
    }
    plan->stream = program->streams[0];
    return KOLO_OK;
}

/* A value and its copies must have the same size. The features take the size of their copy, because the backend has not
 * set it if no operation of home reads them. */
static kolo_status check_copies(kolo_plan *plan)
{
    for (int o = 0; o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        if (op->kind != KOLO_OP_COPY) continue;
        kolo_value *x = &plan->values[kolo_plan_base(plan, op->in[0])];
        const kolo_value *y = &plan->values[kolo_plan_base(plan, op->out[0])];
        if (op->in[0] == plan->input) x->bytes = y->bytes;
        if (x->bytes != y->bytes)
            return kolo_fail(KOLO_INTERNAL, "an activation lies in %zu bytes on one device, in %zu on another",
                             x->bytes, y->bytes);
    }
    return KOLO_OK;
}

static kolo_status begin(kolo_program *program, kolo_purpose purpose, int microbatch)
{
    KOLO_TRY(kolo_lower(program->model, purpose, microbatch, &program->plan));
    kolo_segments_number_devices(program);
    const kolo_backend *backend = program->backend;
    program->memories = backend->memories && program->devices > 0 ? backend->memories(program->devices) : 1;
    for (int d = 0; d < program->devices; d++) program->memory[d] = d % program->memories;
    size_t bytes = (size_t)program->memories * sizeof *program->activation_bytes;
    program->activation_bytes = calloc(2, bytes);
    if (!program->activation_bytes) return kolo_fail_memory(2 * bytes, "a program");
    program->workspace_bytes = program->activation_bytes + program->memories;
    KOLO_TRY(kolo_copies_insert(&program->plan, program->memories));
    return kolo_fallback_insert(&program->plan, backend, &program->fallbacks);
}

kolo_status kolo_program_begin(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_program **program)
{
    kolo_program *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a program");
    made->model = model;
    made->backend = model->backend;
    kolo_status status = begin(made, purpose, microbatch);
    if (status == KOLO_OK) *program = made;
    else kolo_program_close(&made);
    return status;
}

kolo_status kolo_program_complete(kolo_program *program)
{
    program->plan.stream = program->streams[0];
    kolo_fuse(&program->plan, program->backend->fuses);
    KOLO_TRY(prepare(program));
    KOLO_TRY(check_copies(&program->plan));
    KOLO_TRY(kolo_segments_cut(program));
    return kolo_memory_plan_assign(program);
}

void kolo_program_close(kolo_program **program)
{
    kolo_program *closed = *program;
    *program = NULL;
    if (!closed) return;
    for (int o = 0; closed->kernels && o < closed->plan.op_count; o++)
        if (closed->kernels[o]) closed->backend->release(closed->kernels[o]);
    closed->backend->forget(&closed->plan);
    free(closed->kernels);
    kolo_segments_free(closed);
    free(closed->activation_bytes);
    free(closed->gradient_values);
    kolo_plan_free(&closed->plan);
    kolo_fallback_free(&closed->fallbacks);
    free(closed);
}

/* ---------------------------------------------------------------- weights and gradients */

static const kolo_stream_kind *streams_of(const kolo_program *program)
{
    return program->backend->streams;
}

/* Lists all values of a kind that have to be converted; NULL: there is no memory. The caller frees the list. */
static kolo_conversion *list_conversions(const kolo_program *program, kolo_value_kind kind, int *count)
{
    kolo_conversion *list = calloc((size_t)program->plan.value_count + 1, sizeof *list);
    *count = 0;
    for (int v = 0; list && v < program->plan.value_count; v++) {
        const kolo_value *value = &program->plan.values[v];
        if (value->kind == kind && kolo_value_has_memory(value) && !value->in_place) list[(*count)++].value = v;
    }
    if (!list) kolo_fail_memory((size_t)program->plan.value_count * sizeof *list, "a list of values");
    return list;
}

/* Keeps the values of one part, and returns their number. Each value goes to the part with the fewest bytes so far. */
static int keep_part(const kolo_program *program, kolo_conversion *list, int count, int part, int parts)
{
    size_t bytes[KOLO_DEVICES_MAX] = {0};
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int least = 0;
        for (int p = 1; p < parts; p++)
            if (bytes[p] < bytes[least]) least = p;
        bytes[least] += program->plan.values[list[i].value].bytes;
        if (least == part) list[kept++] = list[i];
    }
    return kept;
}

static kolo_status convert(const kolo_program *program, const kolo_conversion *list, int count)
{
    return streams_of(program)->convert(program->streams[0], program->backend, &program->plan, list, count);
}

kolo_status kolo_program_pack(const kolo_program *program, const float *weights, void *packed, int part, int parts)
{
    int count;
    kolo_conversion *list = list_conversions(program, KOLO_VALUE_WEIGHTS, &count);
    if (!list) return KOLO_MEMORY;
    count = keep_part(program, list, count, part, parts);
    for (int i = 0; i < count; i++) {
        const kolo_value *value = &program->plan.values[list[i].value];
        list[i].from = weights + program->model->parameters[value->parameter].offset;
        list[i].to = (char *)packed + value->offset;
    }
    kolo_status status = convert(program, list, count);
    free(list);
    return status;
}

kolo_status kolo_program_unpack(const kolo_program *program, const float *gradients, float *canonical)
{
    int count;
    kolo_conversion *list = list_conversions(program, KOLO_VALUE_GRADIENT, &count);
    if (!list) return KOLO_MEMORY;
    for (int i = 0; i < count; i++) {
        const kolo_value *value = &program->plan.values[list[i].value];
        list[i].from = (const char *)gradients + value->offset;
        list[i].to = canonical + program->model->parameters[value->parameter].offset;
    }
    kolo_status status = convert(program, list, count);
    free(list);
    return status;
}

kolo_status kolo_gradients_unpack(const kolo_gradients *gradients, const float *block, float *canonical)
{
    const kolo_program *program = gradients->program;
    kolo_conversion *list = calloc((size_t)gradients->count + 1, sizeof *list);
    if (!list) return kolo_fail_memory((size_t)gradients->count * sizeof *list, "a list of values");
    for (int i = 0; i < gradients->count; i++) {
        const kolo_value *value = &program->plan.values[gradients->values[i]];
        list[i] = (kolo_conversion){.value = gradients->values[i],
                                    .from = (const char *)block + (value->offset - gradients->first),
                                    .to = canonical + program->model->parameters[value->parameter].offset};
    }
    kolo_status status = convert(program, list, gradients->count);
    free(list);
    return status;
}

static void *allocate_block(const void *owner, size_t bytes)
{
    const kolo_program *program = ((const kolo_gradients *)owner)->program;
    void *memory = NULL;
    kolo_status status =
        streams_of(program)->allocate(program->streams[0], bytes, "the gradient of a microbatch", &memory);
    return status == KOLO_OK ? memory : NULL;
}

static void release_block(const void *owner, void *memory)
{
    const kolo_program *program = ((const kolo_gradients *)owner)->program;
    streams_of(program)->release(program->streams[0], memory);
}

kolo_status kolo_gradients_add(const kolo_gradients *gradients, float *to, const float *from)
{
    const kolo_program *program = gradients->program;
    for (int i = 0; i < gradients->count; i++) {
        size_t at = program->plan.values[gradients->values[i]].offset - gradients->first;
        KOLO_TRY(streams_of(program)->add_gradient(program->streams[0], program->backend, &program->plan,
                                                   gradients->values[i], (char *)to + at, (const char *)from + at));
    }
    return KOLO_OK;
}

static kolo_status add_block(const void *owner, float *to, const float *from)
{
    return kolo_gradients_add(owner, to, from);
}

kolo_status kolo_gradients_reduction(const kolo_gradients *gradients, kolo_reduction **reduction)
{
    kolo_reduction_memory memory = {allocate_block, release_block, add_block, gradients};
    return kolo_reduction_open((int64_t)(gradients->bytes / sizeof(float)), memory, reduction);
}

/* ---------------------------------------------------------------- addresses of values */

float *kolo_activations_input(const kolo_activations *activations)
{
    return activations->memory[activations->program->plan.input];
}

const float *kolo_activations_output(const kolo_activations *activations)
{
    return activations->memory[activations->program->plan.output];
}

static void *weights_of(const kolo_program *program, const kolo_program_weights *weights, const kolo_value *value)
{
    const kolo_parameter *parameter = &program->model->parameters[value->parameter];
    if (value->in_place) return (void *)(uintptr_t)(weights->canonical + parameter->offset); /* they are only read */
    return (char *)weights->packed + value->offset;
}

static void *gradient_of(const kolo_activations *activations, const kolo_value *value, const kolo_blocks *blocks)
{
    if (!blocks->buckets)
        return blocks->gradient ? (char *)blocks->gradient + (value->offset - blocks->gradient_first) : NULL;
    int part = blocks->buckets->part_of[value - activations->program->plan.values];
    char *block = (char *)blocks->parts[part];
    return block ? block + (value->offset - blocks->buckets->parts[part].gradients.first) : NULL;
}

static void *address(const kolo_activations *activations, const kolo_value *value, const kolo_workspace *workspace,
                     const kolo_blocks *blocks)
{
    char *block = value->kept ? activations->block : workspace->block;
    if (value->kind == KOLO_VALUE_WEIGHTS) return weights_of(activations->program, blocks->weights, value);
    if (value->kind == KOLO_VALUE_GRADIENT) return gradient_of(activations, value, blocks);
    size_t at = value->offset;
    if (value->kind == KOLO_VALUE_REDUCED) block = blocks->reduced;
    return block ? block + at : NULL;
}

void kolo_activations_bind(kolo_activations *activations, int number, const kolo_workspace *workspace,
                           const kolo_blocks *blocks)
{
    const kolo_plan *plan = &activations->program->plan;
    const kolo_segment *segment = &activations->program->segments[number];
    for (int i = 0; i < segment->value_count; i++) {
        const kolo_value *value = &plan->values[kolo_plan_base(plan, segment->values[i])];
        activations->memory[segment->values[i]] = address(activations, value, workspace, blocks);
    }
}
