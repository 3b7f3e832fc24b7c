/* Cuts a plan into segments, at reductions over microbatches and where the device changes. See program.h. */
#include <stdlib.h>

#include "engine/memory_plan.h"

/* An operation without a device runs on the replica's first device. */
static int device_of(const kolo_plan *plan, int o)
{
    return plan->ops[o].device > 0 ? plan->ops[o].device : 0;
}

static kolo_status add_segment(kolo_program *program, int first, int end)
{
    const kolo_plan *plan = &program->plan;
    size_t bytes = (size_t)(program->segment_count + 1) * sizeof(kolo_segment);
    kolo_segment *grown = realloc(program->segments, bytes);
    if (!grown) return kolo_fail_memory(bytes, "a program");
    program->segments = grown;
    bool reduces = end < plan->op_count && plan->ops[end].kind == KOLO_OP_REDUCE;
    program->reduces = program->reduces || reduces;
    grown[program->segment_count++] = (kolo_segment){.program = program,
                                                     .first = first,
                                                     .end = end,
                                                     .device = plan->ops[first].device,
                                                     .reduce = reduces ? end : -1};
    return KOLO_OK;
}

static bool is_used(const kolo_plan *plan, int device)
{
    for (int o = 0; o < plan->op_count; o++)
        if (device_of(plan, o) == device) return true;
    return false;
}

void kolo_segments_number_devices(kolo_program *program)
{
    kolo_plan *plan = &program->plan;
    int numbers[KOLO_DEVICES_MAX];
    for (int device = 0; device < KOLO_DEVICES_MAX; device++) {
        if (!is_used(plan, device)) continue;
        numbers[device] = program->devices;
        program->device[program->devices++] = device;
    }
    for (int o = 0; o < plan->op_count; o++) plan->ops[o].device = numbers[device_of(plan, o)];
}

/* After every reduction the microbatches run in the opposite order, since the last ones are still in the caches. */
static void alternate_directions(kolo_program *program)
{
    bool backwards = false;
    for (int s = 0; s < program->segment_count; s++) {
        program->segments[s].backwards = backwards;
        backwards = backwards != (program->segments[s].reduce >= 0);
    }
}

/* A reduction belongs to no segment: the engine runs it between two segments. */
kolo_status kolo_segments_cut(kolo_program *program)
{
    const kolo_plan *plan = &program->plan;
    int first = 0;
    for (int o = 0; o <= plan->op_count; o++) {
        bool end = o == plan->op_count, reduce = !end && plan->ops[o].kind == KOLO_OP_REDUCE;
        bool moves = !end && o > first && plan->ops[o].device != plan->ops[o - 1].device;
        if (!(end || reduce || moves) || (o == first && !reduce)) continue;
        KOLO_TRY(add_segment(program, first, o));
        first = reduce ? o + 1 : o;
    }
    alternate_directions(program);
    return KOLO_OK;
}

void kolo_segments_free(kolo_program *program)
{
    for (int s = 0; s < program->segment_count; s++) free(program->segments[s].values);
    free(program->segments);
}
