/* Plans the lifetime and the offset of every value: see memory_plan.h. */
#include "engine/memory_plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct life {
    int value;
    int first, last; /* the operation that writes it; the last one that reads or writes it. -1: no operation does */
    size_t bytes;
} life;

/* Whether a value is stored in activations or in a workspace. */
static bool lives_in_a_microbatch(const kolo_value *value)
{
    bool kind = value->kind == KOLO_VALUE_INPUT || value->kind == KOLO_VALUE_ACTIVATION ||
                value->kind == KOLO_VALUE_WORKSPACE || value->kind == KOLO_VALUE_PARTIAL;
    return kind && kolo_value_has_memory(value) && value->bytes > 0;
}

/* A KOLO_OP_REDUCE counts as part of the segment behind it, because the partials that it reads are needed until all
 * microbatches have written theirs. */
static int segment_of(const kolo_program *program, int op)
{
    int segment = 0;
    while (segment < program->segment_count - 1 && op >= program->segments[segment].end) segment++;
    return segment;
}

static void touch(const kolo_plan *plan, life *lives, int value, int op)
{
    if (value < 0) return;
    life *touched = &lives[kolo_plan_base(plan, value)];
    if (touched->first < 0) touched->first = op;
    touched->last = op;
}

/* The input is written before the first operation, and the output is read after the last. The source of a copy is
 * needed to the end, because the device that copies it may be late. */
static void find_lives(const kolo_plan *plan, life *lives)
{
    for (int v = 0; v < plan->value_count; v++)
        lives[v] = (life){v, -1, -1, kolo_align(plan->values[v].bytes, KOLO_ALIGNMENT)};
    touch(plan, lives, plan->input, 0);
    for (int o = 0; o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        for (int i = 0; i < KOLO_OP_INS; i++) touch(plan, lives, op->in[i], o);
        for (int i = 0; i < KOLO_OP_OUTS; i++) touch(plan, lives, op->out[i], o);
    }
    for (int o = 0; o < plan->op_count; o++)
        if (plan->ops[o].kind == KOLO_OP_COPY) touch(plan, lives, plan->ops[o].in[0], plan->op_count);
    touch(plan, lives, plan->output, plan->op_count);
}

static bool overlap(life a, life b)
{
    return a.first <= b.last && b.first <= a.last;
}

/* The lowest offset that is free during the whole lifetime of the value. */
static size_t lowest_place(const kolo_plan *plan, const life *placed, int count, life wanted)
{
    size_t place = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < count; i++) {
            size_t start = plan->values[placed[i].value].offset, end = start + placed[i].bytes;
            if (overlap(placed[i], wanted) && place < end && start < place + wanted.bytes) {
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

/* Greedy by size, as TensorFlow Lite's planner does: the largest first, each at its lowest free offset. */
static size_t place_lives(kolo_plan *plan, life *lives, int count)
{
    size_t bytes = 0;
    qsort(lives, (size_t)count, sizeof *lives, larger_first);
    for (int i = 0; i < count; i++) {
        kolo_value *value = &plan->values[lives[i].value];
        value->offset = lowest_place(plan, lives, i, lives[i]);
        size_t end = value->offset + lives[i].bytes;
        if (end > bytes) bytes = end;
    }
    return bytes;
}

/* Places the values of one memory that are kept, or those that are not. Returns their size in bytes. some: scratch
 * memory for their lifetimes. */
static size_t place_some(kolo_program *program, const life *lives, int memory, bool kept, life *some)
{
    int count = 0;
    for (int v = 0; v < program->plan.value_count; v++) {
        const kolo_value *value = &program->plan.values[v];
        bool placed = lives_in_a_microbatch(value) && lives[v].first >= 0;
        if (placed && value->memory == memory && value->kept == kept) some[count++] = lives[v];
    }
    return place_lives(&program->plan, some, count);
}

/* A value is kept if a later segment uses it. With several devices features and outputs are kept, too, because home
 * writes the features and reads the outputs outside any segment. */
static bool is_kept(const kolo_program *program, const life *lives, int v)
{
    const kolo_plan *plan = &program->plan;
    bool at_home = v == plan->input || v == kolo_plan_base(plan, plan->output);
    return segment_of(program, lives[v].first) != segment_of(program, lives[v].last) ||
           (at_home && program->devices > 1);
}

static kolo_status place_microbatch(kolo_program *program)
{
    kolo_plan *plan = &program->plan;
    size_t bytes = (size_t)plan->value_count * 2 * sizeof(life);
    life *lives = calloc(1, bytes);
    if (!lives) return kolo_fail_memory(bytes, "a plan");
    find_lives(plan, lives);
    for (int v = 0; v < plan->value_count; v++) plan->values[v].kept = is_kept(program, lives, v);
    for (int m = 0; m < program->memories; m++) {
        program->activation_bytes[m] = place_some(program, lives, m, true, lives + plan->value_count);
        program->workspace_bytes[m] = place_some(program, lives, m, false, lives + plan->value_count);
    }
    free(lives);
    return KOLO_OK;
}

static bool is_placed(const kolo_gradients *gradients, int value)
{
    for (int i = 0; i < gradients->count; i++)
        if (gradients->values[i] == value) return true;
    return false;
}

/* Places the gradients of a segment side by side, behind those of the segments before it. */
static void place_gradients(kolo_program *program, kolo_segment *segment)
{
    kolo_plan *plan = &program->plan;
    kolo_gradients *all = &program->gradients;
    int before = all->count;
    size_t first = all->bytes;
    for (int o = segment->first; o < segment->end; o++) {
        for (int i = 0; i < KOLO_OP_OUTS; i++) {
            int v = plan->ops[o].out[i];
            if (v < 0 || plan->values[v].kind != KOLO_VALUE_GRADIENT || !kolo_value_has_memory(&plan->values[v]))
                continue;
            if (is_placed(all, v)) continue; /* a custom layer may write it in two operations */
            plan->values[v].offset = all->bytes;
            all->bytes += kolo_align(plan->values[v].bytes, KOLO_ALIGNMENT);
            program->gradient_values[all->count++] = v;
        }
    }
    segment->gradients =
        (kolo_gradients){program, first, all->bytes - first, all->values + before, all->count - before};
}

static kolo_status place_all_gradients(kolo_program *program)
{
    size_t bytes = (size_t)program->plan.value_count * sizeof(int);
    program->gradient_values = malloc(bytes);
    if (!program->gradient_values) return kolo_fail_memory(bytes, "a plan");
    program->gradients = (kolo_gradients){.program = program, .values = program->gradient_values};
    for (int s = 0; s < program->segment_count; s++) place_gradients(program, &program->segments[s]);
    return KOLO_OK;
}

/* Places packed weights, or reduced sums, side by side. */
static void place_in_a_row(kolo_plan *plan, kolo_value_kind kind, size_t *bytes)
{
    for (int v = 0; v < plan->value_count; v++) {
        kolo_value *value = &plan->values[v];
        if (value->kind != kind || !kolo_value_has_memory(value) || value->in_place) continue;
        value->offset = *bytes;
        *bytes += kolo_align(value->bytes, KOLO_ALIGNMENT);
    }
}

/* ---------------------------------------------------------------- the values of a segment */

static void list_value(const kolo_plan *plan, kolo_segment *segment, bool *listed, int value)
{
    if (value < 0 || listed[value]) return;
    listed[value] = true;
    segment->values[segment->value_count++] = value;
    list_value(plan, segment, listed, plan->values[value].view_of);
    list_value(plan, segment, listed, plan->values[value].packed_as);
}

/* The last segment in the output's memory. It lists the output explicitly, because the output can be a view that is an
 * operand of no operation. */
static int last_of_output(const kolo_program *program)
{
    int memory = program->plan.values[kolo_plan_base(&program->plan, program->plan.output)].memory;
    int last = program->segment_count - 1;
    while (last > 0 && program->memory[program->segments[last].device] != memory) last--;
    return last;
}

/* The source of a copy is not listed, because it is in another memory. */
static kolo_status list_values(kolo_program *program, int number)
{
    const kolo_plan *plan = &program->plan;
    kolo_segment *segment = &program->segments[number];
    size_t bytes = (size_t)plan->value_count * (sizeof(int) + sizeof(bool));
    segment->values = malloc(bytes);
    if (!segment->values) return kolo_fail_memory(bytes, "a plan");
    bool *listed = (bool *)(segment->values + plan->value_count);
    memset(listed, 0, (size_t)plan->value_count * sizeof(bool));
    if (number == 0 && program->memory[segment->device] == 0) list_value(plan, segment, listed, plan->input);
    if (number == last_of_output(program)) list_value(plan, segment, listed, plan->output);
    for (int o = segment->first; o < segment->end; o++) {
        bool copies = plan->ops[o].kind == KOLO_OP_COPY;
        for (int i = 0; !copies && i < KOLO_OP_INS; i++) list_value(plan, segment, listed, plan->ops[o].in[i]);
        for (int i = 0; i < KOLO_OP_OUTS; i++) list_value(plan, segment, listed, plan->ops[o].out[i]);
    }
    return KOLO_OK;
}

kolo_status kolo_memory_plan_assign(kolo_program *program)
{
    kolo_plan *plan = &program->plan;
    KOLO_TRY(place_microbatch(program));
    place_in_a_row(plan, KOLO_VALUE_WEIGHTS, &program->weights_bytes);
    KOLO_TRY(place_all_gradients(program));
    place_in_a_row(plan, KOLO_VALUE_REDUCED, &program->reduced_bytes);
    for (int o = 0; o < plan->op_count; o++)
        if (plan->ops[o].scratch > program->scratch_bytes) program->scratch_bytes = plan->ops[o].scratch;
    for (int s = 0; s < program->segment_count; s++) KOLO_TRY(list_values(program, s));
    return KOLO_OK;
}
