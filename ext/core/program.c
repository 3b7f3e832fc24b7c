/* Programs and frames: see program.h. What stands here is where every value lives and when. */
#include "core/program.h"

#include <stdlib.h>
#include <string.h>

#include "core/lower.h"

#define ALIGNMENT ((size_t)64) /* a cache line; what AVX-512 loads at once */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---------------------------------------------------------------- places */

typedef struct life {
    int value;
    int first, last; /* operations: the one that writes it, the last that touches it */
    size_t bytes;
} life;

static bool lives_in_a_frame(const kolo_value *value)
{
    bool kind =
        value->kind == KOLO_VALUE_INPUT || value->kind == KOLO_VALUE_ACTIVATION || value->kind == KOLO_VALUE_WORKSPACE;
    return kind && value->view_of < 0 && value->bytes > 0;
}

static void touch(const kolo_plan *plan, life *lives, int value, int op)
{
    if (value < 0) return;
    life *touched = &lives[kolo_plan_base(plan, value)];
    if (touched->first < 0) touched->first = op;
    touched->last = op;
}

/* The input is there before the first operation; the output is read after the last. */
static void find_lives(const kolo_plan *plan, life *lives)
{
    for (int v = 0; v < plan->value_count; v++) lives[v] = (life){v, -1, -1, aligned(plan->values[v].bytes)};
    touch(plan, lives, plan->input, 0);
    for (int o = 0; o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        for (int i = 0; i < KOLO_OP_INS; i++) touch(plan, lives, op->in[i], o);
        for (int i = 0; i < KOLO_OP_OUTS; i++) touch(plan, lives, op->out[i], o);
    }
    touch(plan, lives, plan->output, plan->op_count);
}

static bool meet(life a, life b)
{
    return a.first <= b.last && b.first <= a.last;
}

/* The lowest place that is free for the whole life of the value, among those placed already. */
static size_t lowest_place(const kolo_plan *plan, const life *placed, int count, life wanted)
{
    size_t place = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < count; i++) {
            size_t start = plan->values[placed[i].value].offset, end = start + placed[i].bytes;
            if (meet(placed[i], wanted) && place < end && start < place + wanted.bytes) {
                place = end;
                moved = true;
            }
        }
    }
    return place;
}

static int larger_first(const void *a, const void *b)
{
    const life *left = a, *right = b;
    if (left->bytes != right->bytes) return left->bytes < right->bytes ? 1 : -1;
    return left->value - right->value;
}

/* Greedy by size, as TensorFlow Lite's planner does: the largest first, each at its lowest free place. */
static kolo_status place_frame(kolo_program *program)
{
    kolo_plan *plan = &program->plan;
    size_t bytes = (size_t)plan->value_count * sizeof(life);
    life *lives = malloc(bytes);
    if (!lives) return kolo_fail_memory(bytes, "a plan");
    find_lives(plan, lives);
    int count = 0;
    for (int v = 0; v < plan->value_count; v++)
        if (lives_in_a_frame(&plan->values[v]) && lives[v].first >= 0) lives[count++] = lives[v];
    qsort(lives, (size_t)count, sizeof *lives, larger_first);
    for (int i = 0; i < count; i++) {
        kolo_value *value = &plan->values[lives[i].value];
        value->offset = lowest_place(plan, lives, i, lives[i]);
        size_t end = value->offset + lives[i].bytes;
        if (end > program->frame_bytes) program->frame_bytes = end;
    }
    free(lives);
    return KOLO_OK;
}

/* Packed weights and gradients live side by side, one after another. */
static void place_in_a_row(kolo_plan *plan, kolo_value_kind kind, size_t *bytes)
{
    for (int v = 0; v < plan->value_count; v++) {
        kolo_value *value = &plan->values[v];
        if (value->kind != kind || value->view_of >= 0 || value->in_place) continue;
        value->offset = *bytes;
        *bytes += aligned(value->bytes);
    }
}

static kolo_status place(kolo_program *program)
{
    KOLO_TRY(place_frame(program));
    place_in_a_row(&program->plan, KOLO_VALUE_WEIGHTS, &program->weights_bytes);
    place_in_a_row(&program->plan, KOLO_VALUE_GRADIENT, &program->gradient_bytes);
    for (int o = 0; o < program->plan.op_count; o++)
        if (program->plan.ops[o].scratch > program->scratch_bytes)
            program->scratch_bytes = program->plan.ops[o].scratch;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- programs */

static kolo_status prepare(kolo_program *program)
{
    kolo_plan *plan = &program->plan;
    program->kernels = calloc((size_t)plan->op_count, sizeof *program->kernels);
    if (!program->kernels) return kolo_fail_memory((size_t)plan->op_count * sizeof *program->kernels, "a program");
    for (int o = 0; o < plan->op_count; o++) {
        kolo_status status = program->backend->prepare(plan, o, &program->kernels[o]);
        if (status == KOLO_OK) continue;
        kolo_failure failure = kolo_failure_take();
        return kolo_fail(status, "%s: %s", kolo_layer_text(&program->model->layers[plan->ops[o].layer]), failure.text);
    }
    return KOLO_OK;
}

kolo_status kolo_program_open(const kolo_model *model, kolo_purpose purpose, int leaf, kolo_program **program)
{
    kolo_program *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a program");
    made->model = model;
    made->backend = model->backend;
    kolo_status status;
    KOLO_GO(fail, kolo_lower(model, purpose, leaf, &made->plan));
    KOLO_GO(fail, prepare(made));
    KOLO_GO(fail, place(made));
    *program = made;
    return KOLO_OK;
fail:
    kolo_program_close(&made);
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

void kolo_program_add(const void *program, float *to, const float *from)
{
    const kolo_program *whose = program;
    const kolo_plan *plan = &whose->plan;
    for (int v = 0; v < plan->value_count; v++) {
        const kolo_value *value = &plan->values[v];
        if (value->kind != KOLO_VALUE_GRADIENT || value->view_of >= 0) continue;
        whose->backend->add(plan, v, (char *)to + value->offset, (const char *)from + value->offset);
    }
}

kolo_status kolo_program_unpack(const kolo_program *program, const float *gradients, float *canonical)
{
    for (int v = 0; v < program->plan.value_count; v++) {
        const kolo_value *value = &program->plan.values[v];
        if (value->kind != KOLO_VALUE_GRADIENT || value->view_of >= 0) continue;
        float *target = canonical + program->model->parameters[value->parameter].offset;
        KOLO_TRY(program->backend->unpack(&program->plan, v, (const char *)gradients + value->offset, target));
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- frames */

/* False: no memory. */
static bool open_targets(kolo_frame *frame, const kolo_plan *plan)
{
    kolo_shape outputs = plan->values[plan->output].shape;
    size_t numbers = (size_t)(plan->leaf * kolo_shape_count(outputs));
    size_t rows = numbers / (size_t)outputs.dim[outputs.rank - 1];
    if (plan->labels) frame->labels = calloc(rows, sizeof *frame->labels);
    if (plan->targets) frame->targets = calloc(numbers, sizeof *frame->targets);
    if (plan->weights) frame->weights = calloc((size_t)plan->leaf, sizeof *frame->weights);
    return (!plan->labels || frame->labels) && (!plan->targets || frame->targets) && (!plan->weights || frame->weights);
}

kolo_status kolo_frame_open(const kolo_program *program, kolo_frame **frame)
{
    const kolo_plan *plan = &program->plan;
    kolo_frame *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a frame");
    made->program = program;
    made->block = program->backend->allocate(program->frame_bytes + ALIGNMENT);
    made->scratch = program->backend->allocate(program->scratch_bytes + ALIGNMENT);
    made->memory = calloc((size_t)plan->value_count, sizeof *made->memory);
    bool fine = made->block && made->scratch && made->memory && open_targets(made, plan);
    if (!fine) {
        kolo_frame_close(&made);
        return kolo_fail_memory(program->frame_bytes + program->scratch_bytes, "the activations of one leaf");
    }
    for (int v = 0; v < plan->value_count; v++)
        if (lives_in_a_frame(&plan->values[v])) made->memory[v] = (char *)made->block + plan->values[v].offset;
    *frame = made;
    return KOLO_OK;
}

void kolo_frame_close(kolo_frame **frame)
{
    kolo_frame *closed = *frame;
    *frame = NULL;
    if (!closed) return;
    closed->program->backend->deallocate(closed->block);
    closed->program->backend->deallocate(closed->scratch);
    free(closed->memory);
    free(closed->labels);
    free(closed->targets);
    free(closed->weights);
    free(closed);
}

float *kolo_frame_input(const kolo_frame *frame)
{
    return frame->memory[frame->program->plan.input];
}

const float *kolo_frame_output(const kolo_frame *frame)
{
    const kolo_plan *plan = &frame->program->plan;
    return frame->memory[kolo_plan_base(plan, plan->output)];
}

static void *weights_of(const kolo_program *program, const kolo_program_weights *weights, const kolo_value *value)
{
    const kolo_parameter *parameter = &program->model->parameters[value->parameter];
    if (value->in_place) return (void *)(uintptr_t)(weights->canonical + parameter->offset); /* they are only read */
    return (char *)weights->packed + value->offset;
}

/* Weights and gradients are in other blocks from run to run; views are where their base is. */
static void bind(kolo_frame *frame, const kolo_program_weights *weights, char *gradients)
{
    const kolo_program *program = frame->program;
    const kolo_plan *plan = &program->plan;
    for (int v = 0; v < plan->value_count; v++) {
        const kolo_value *value = &plan->values[v];
        if (value->view_of >= 0) continue;
        if (value->kind == KOLO_VALUE_WEIGHTS) frame->memory[v] = weights_of(program, weights, value);
        if (value->kind == KOLO_VALUE_GRADIENT) frame->memory[v] = gradients ? gradients + value->offset : NULL;
    }
    for (int v = 0; v < plan->value_count; v++) frame->memory[v] = frame->memory[kolo_plan_base(plan, v)];
}

kolo_status kolo_program_run(kolo_frame *frame, const kolo_program_weights *weights, float *gradients, kolo_call call)
{
    const kolo_program *program = frame->program;
    bind(frame, weights, (char *)gradients);
    call.memory = frame->memory;
    call.scratch = frame->scratch;
    call.labels = frame->labels;
    call.targets = frame->targets;
    call.weights = frame->weights;
    for (int o = 0; o < program->plan.op_count; o++) KOLO_TRY(program->backend->run(program->kernels[o], &call));
    return KOLO_OK;
}
