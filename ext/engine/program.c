/* Programs and the memory they run in: see program.h. */
#include "engine/program.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/copies.h"
#include "model/lower.h"
#include "engine/memory_plan.h"

/* ---------------------------------------------------------------- programs */

static kolo_status prepare(kolo_program *program)
{
    kolo_plan *plan = &program->plan;
    program->kernels = calloc((size_t)plan->op_count, sizeof *program->kernels);
    if (!program->kernels) return kolo_fail_memory((size_t)plan->op_count * sizeof *program->kernels, "a program");
    for (int o = 0; o < plan->op_count; o++) {
        if (plan->ops[o].kind == KOLO_OP_REDUCE || plan->ops[o].kind == KOLO_OP_COPY) continue; /* the engine's own */
        plan->stream = program->streams[plan->ops[o].device];
        kolo_status status = program->backend->prepare(plan, o, &program->kernels[o]);
        if (status == KOLO_OK) continue;
        kolo_failure failure = kolo_failure_take();
        return kolo_fail(status, "%s: %s", kolo_layer_text(&program->model->layers[plan->ops[o].layer]), failure.text);
    }
    plan->stream = program->streams[0];
    return KOLO_OK;
}

/* A value and its copies take the same bytes. Features that nobody takes where they come in are touched by no operation
 * of the backend's. */
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
    program->memories = program->backend->accelerator && program->devices > 0 ? program->devices : 1;
    size_t bytes = (size_t)program->memories * sizeof *program->activation_bytes;
    program->activation_bytes = calloc(2, bytes);
    if (!program->activation_bytes) return kolo_fail_memory(2 * bytes, "a program");
    program->workspace_bytes = program->activation_bytes + program->memories;
    return kolo_copies_insert(&program->plan, program->memories);
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
    KOLO_TRY(prepare(program));
    KOLO_TRY(check_copies(&program->plan));
    KOLO_TRY(kolo_segments_cut(program));
    return kolo_places_assign(program);
}

kolo_status kolo_program_open(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_program **program)
{
    KOLO_TRY(kolo_program_begin(model, purpose, microbatch, program));
    kolo_status status = kolo_program_complete(*program);
    if (status != KOLO_OK) kolo_program_close(program);
    return status;
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
    kolo_plan_free(&closed->plan);
    free(closed);
}

kolo_status kolo_program_pack(const kolo_program *program, int value, const float *weights, void *packed)
{
    const kolo_value *target = &program->plan.values[value];
    if (target->kind != KOLO_VALUE_WEIGHTS || target->view_of >= 0 || target->in_place) return KOLO_OK;
    const float *canonical = weights + program->model->parameters[target->parameter].offset;
    return program->backend->pack(&program->plan, value, canonical, (char *)packed + target->offset);
}

/* A list of all values of that kind which are converted, for the caller to free; NULL when there is no memory. */
static kolo_conversion *conversions(const kolo_program *program, kolo_value_kind kind, int *count)
{
    kolo_conversion *list = calloc((size_t)program->plan.value_count + 1, sizeof *list);
    *count = 0;
    for (int v = 0; list && v < program->plan.value_count; v++) {
        const kolo_value *value = &program->plan.values[v];
        if (value->kind == kind && value->view_of < 0 && !value->in_place) list[(*count)++].value = v;
    }
    if (!list) kolo_fail_memory((size_t)program->plan.value_count * sizeof *list, "a list of values");
    return list;
}

static kolo_status convert(const kolo_program *program, const kolo_conversion *list, int count)
{
    const kolo_backend *backend = program->backend;
    bool packs = count > 0 && program->plan.values[list[0].value].kind == KOLO_VALUE_WEIGHTS;
    if (backend->convert && count > 0) return backend->convert(&program->plan, list, count);
    for (int i = 0; i < count; i++)
        KOLO_TRY(packs ? backend->pack(&program->plan, list[i].value, list[i].from, list[i].to)
                       : backend->unpack(&program->plan, list[i].value, list[i].from, list[i].to));
    return KOLO_OK;
}

kolo_status kolo_program_pack_all(const kolo_program *program, const float *weights, void *packed)
{
    int count;
    kolo_conversion *list = conversions(program, KOLO_VALUE_WEIGHTS, &count);
    if (!list) return KOLO_MEMORY;
    for (int i = 0; i < count; i++) {
        const kolo_value *value = &program->plan.values[list[i].value];
        list[i].from = weights + program->model->parameters[value->parameter].offset;
        list[i].to = (char *)packed + value->offset;
    }
    kolo_status status = convert(program, list, count);
    free(list);
    return status;
}

void *kolo_program_allocate(const kolo_program *program, size_t bytes)
{
    void *memory = NULL;
    const kolo_accelerator *accelerator = program->backend->accelerator;
    if (!accelerator) return program->backend->allocate(bytes);
    return accelerator->allocate(program->plan.stream, bytes, "a model's values", &memory) == KOLO_OK ? memory : NULL;
}

void kolo_program_deallocate(const kolo_program *program, void *memory)
{
    const kolo_accelerator *accelerator = program->backend->accelerator;
    if (accelerator) accelerator->release(program->plan.stream, memory);
    else program->backend->deallocate(memory);
}

static void *allocate_block(const void *program, size_t bytes)
{
    return kolo_program_allocate(program, bytes);
}

static void deallocate_block(const void *program, void *memory)
{
    kolo_program_deallocate(program, memory);
}

static void add_block(const void *program, float *to, const float *from)
{
    const kolo_program *whose = program;
    const kolo_plan *plan = &whose->plan;
    for (int v = 0; v < plan->value_count; v++) {
        const kolo_value *value = &plan->values[v];
        if (value->kind != KOLO_VALUE_GRADIENT || value->view_of >= 0) continue;
        whose->backend->add(plan, v, (char *)to + value->offset, (const char *)from + value->offset);
    }
}

kolo_reduction_memory kolo_program_reduction_memory(const kolo_program *program)
{
    return (kolo_reduction_memory){
        .allocate = allocate_block, .deallocate = deallocate_block, .add = add_block, .whose = program};
}

kolo_status kolo_program_unpack_there(const kolo_program *program, const float *gradients, float *canonical)
{
    int count;
    kolo_conversion *list = conversions(program, KOLO_VALUE_GRADIENT, &count);
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

/* By way of memory of the device. */
static kolo_status unpack_and_fetch(const kolo_program *program, const float *gradients, float *canonical)
{
    const kolo_accelerator *accelerator = program->backend->accelerator;
    kolo_stream *stream = program->plan.stream;
    size_t bytes = (size_t)program->model->weight_count * sizeof *canonical;
    void *there = NULL;
    KOLO_TRY(accelerator->allocate(stream, bytes, "a gradient", &there));
    kolo_status status = accelerator->clear(stream, there, bytes);
    if (status == KOLO_OK) status = kolo_program_unpack_there(program, gradients, there);
    if (status == KOLO_OK) status = accelerator->copy(stream, canonical, there, bytes);
    if (status == KOLO_OK) status = accelerator->finish(stream);
    accelerator->release(stream, there);
    return status;
}

kolo_status kolo_program_unpack(const kolo_program *program, const float *gradients, float *canonical)
{
    return program->backend->accelerator ? unpack_and_fetch(program, gradients, canonical)
                                         : kolo_program_unpack_there(program, gradients, canonical);
}

/* ---------------------------------------------------------------- activations and workspaces */

/* False: no memory. */
static bool open_targets(kolo_activations *activations, const kolo_plan *plan)
{
    kolo_shape outputs = plan->values[plan->output].shape;
    size_t numbers = (size_t)(plan->microbatch * kolo_shape_count(outputs));
    size_t rows = numbers / (size_t)outputs.dim[outputs.rank - 1];
    if (plan->labels) activations->labels = calloc(rows, sizeof *activations->labels);
    if (plan->targets) activations->targets = calloc(numbers, sizeof *activations->targets);
    if (plan->weights) activations->weights = calloc((size_t)plan->microbatch, sizeof *activations->weights);
    return (!plan->labels || activations->labels) && (!plan->targets || activations->targets) &&
           (!plan->weights || activations->weights);
}

kolo_status kolo_activations_open(const kolo_program *program, kolo_activations **activations)
{
    kolo_activations *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "activations");
    made->program = program;
    made->block = kolo_program_allocate(program, program->activation_bytes[0] + KOLO_ALIGNMENT);
    made->memory = calloc((size_t)program->plan.value_count, sizeof *made->memory);
    bool fine = made->block && made->memory && open_targets(made, &program->plan);
    if (!fine) {
        kolo_activations_close(&made);
        return kolo_fail_memory(program->activation_bytes[0], "the activations of one microbatch");
    }
    *activations = made;
    return KOLO_OK;
}

void kolo_activations_close(kolo_activations **activations)
{
    kolo_activations *closed = *activations;
    *activations = NULL;
    if (!closed) return;
    kolo_program_deallocate(closed->program, closed->block);
    free(closed->memory);
    free(closed->labels);
    free(closed->targets);
    free(closed->weights);
    free(closed);
}

kolo_status kolo_workspace_open(const kolo_program *program, kolo_workspace *workspace)
{
    *workspace = (kolo_workspace){.block = kolo_program_allocate(program, program->workspace_bytes[0] + KOLO_ALIGNMENT),
                                  .scratch = kolo_program_allocate(program, program->scratch_bytes + KOLO_ALIGNMENT)};
    if (workspace->block && workspace->scratch) return KOLO_OK;
    return kolo_fail_memory(program->workspace_bytes[0] + program->scratch_bytes, "the activations of one microbatch");
}

void kolo_workspace_close(const kolo_program *program, kolo_workspace *workspace)
{
    kolo_program_deallocate(program, workspace->block);
    kolo_program_deallocate(program, workspace->scratch);
    free(workspace->seconds);
    *workspace = (kolo_workspace){0};
}

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

static void *address(const kolo_activations *activations, const kolo_value *value, const kolo_workspace *workspace,
                     const kolo_blocks *blocks)
{
    char *block = value->kept ? activations->block : workspace->block;
    if (value->kind == KOLO_VALUE_WEIGHTS) return weights_of(activations->program, blocks->weights, value);
    size_t at = value->offset;
    if (value->kind == KOLO_VALUE_GRADIENT) {
        block = (char *)blocks->gradient;
        at -= blocks->gradient_first;
    }
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

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static kolo_status run_timed(const kolo_program *program, int op, const kolo_call *call, double *seconds)
{
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    kolo_status status = program->backend->run(program->kernels[op], call);
    *seconds += seconds_since(&start);
    return status;
}

/* What goes back is larger by that much, from the loss on. */
static void scale_loss(const kolo_activations *activations, double scale)
{
    const kolo_plan *plan = &activations->program->plan;
    if (scale == 0 || scale == 1 || plan->loss_gradient < 0) return;
    float *gradient = activations->memory[plan->loss_gradient];
    int64_t count = plan->microbatch * kolo_shape_count(plan->values[plan->loss_gradient].shape);
    for (int64_t i = 0; i < count; i++) gradient[i] *= (float)scale;
}

kolo_status kolo_program_run(kolo_activations *activations, int number, const kolo_workspace *workspace, kolo_call call)
{
    const kolo_program *program = activations->program;
    const kolo_segment *segment = &program->segments[number];
    call.memory = activations->memory;
    call.scratch = workspace->scratch;
    call.labels = activations->labels;
    call.targets = activations->targets;
    call.weights = activations->weights;
    for (int o = segment->first; o < segment->end; o++) {
        KOLO_TRY(workspace->seconds ? run_timed(program, o, &call, &workspace->seconds[o])
                                    : program->backend->run(program->kernels[o], &call));
        if (program->plan.ops[o].kind == KOLO_OP_LOSS) scale_loss(activations, call.loss_scale);
    }
    return KOLO_OK;
}
