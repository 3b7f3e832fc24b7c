/* Where leaves meet on an accelerator: what they brought is added up, and over the members of a group where the layer
 * says so. See queued.h; meeting.c is the host's.
 *
 * A sum of sums would depend on who had which leaves. In deterministic mode every member therefore gets what each leaf
 * of the batch brought: all members add up arrays in which each has filled in its own leaves, the others' being zeros,
 * which is exact in any order, and then all add in the order of the leaves. */
#include <stdlib.h>

#include "engine/queued.h"

bool kolo_queued_is_alone(const kolo_queued_job *j)
{
    return j->share->end_leaf - j->share->first_leaf == 1;
}

bool kolo_queued_asks_others(const kolo_queued_job *j, int op)
{
    const kolo_share *share = j->share;
    return j->queued->program->plan.ops[op].across && share->group && share->group->size > 1;
}

void *kolo_queued_met(const kolo_station *station, int op)
{
    const kolo_plan *plan = &station->program->plan;
    return (char *)station->met + plan->values[plan->ops[op].out[0]].offset;
}

/* ---------------------------------------------------------------- memory */

bool kolo_queued_meets_others(const kolo_program *program)
{
    bool meets = false;
    for (int o = 0; o < program->plan.op_count; o++)
        meets = meets || (program->plan.ops[o].kind == KOLO_OP_MEET && program->plan.ops[o].across);
    return meets;
}

/* The longest sum that a station's leaves bring to others. */
static size_t longest(const kolo_station *station)
{
    const kolo_plan *plan = &station->program->plan;
    size_t bytes = 0;
    for (int o = 0; o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        bool here = op->kind == KOLO_OP_MEET && op->across && op->device == station->number;
        if (here && plan->values[op->out[0]].bytes > bytes) bytes = plan->values[op->out[0]].bytes;
    }
    return bytes;
}

kolo_status kolo_queued_reserve_meetings(kolo_queued *queued, int64_t samples)
{
    const kolo_program *program = queued->program;
    int64_t leaves = (samples + program->plan.leaf - 1) / program->plan.leaf;
    if (!program->model->settings.deterministic || leaves <= queued->meeting_room) return KOLO_OK;
    for (int s = 0; s < queued->station_count; s++) {
        kolo_station *station = &queued->stations[s];
        station->accelerator->release(station->queue, station->brought);
        station->brought = NULL;
        size_t bytes = (size_t)leaves * longest(station);
        if (bytes == 0) continue;
        KOLO_TRY(station->accelerator->allocate(station->queue, bytes, "sums over the leaves",
                                                (void **)&station->brought));
    }
    queued->meeting_room = leaves;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- over the group */

static kolo_status sum_on_host(const kolo_queued_job *j, const kolo_station *station, double *values, int64_t count)
{
    const kolo_accelerator *accelerator = station->accelerator;
    kolo_comm *group = j->share->group;
    size_t bytes = (size_t)count * sizeof *values;
    double *sums = malloc(bytes);
    if (!sums) return kolo_fail_memory(bytes, "sums over the leaves");
    kolo_status status = accelerator->copy(station->queue, sums, values, bytes);
    if (status == KOLO_OK) status = accelerator->finish(station->queue);
    if (status == KOLO_OK) status = group->kind->allreduce(group, sums, count, KOLO_TYPE_DOUBLE);
    if (status == KOLO_OK) status = accelerator->copy(station->queue, values, sums, bytes);
    free(sums);
    return status;
}

/* The group's queues are the members' homes. */
static kolo_status sum_over_group(const kolo_queued_job *j, const kolo_station *station, double *values, int64_t count)
{
    void *together = j->queued->together;
    if (!together || station->number > 0) return sum_on_host(j, station, values, count);
    return station->accelerator->allreduce(station->queue, together, values, count, KOLO_TYPE_DOUBLE);
}

/* ---------------------------------------------------------------- a meeting */

/* Every leaf's part is in a frame of its own, at the same place; that of one alone is where the sum belongs. */
static const char *part_of(const kolo_queued_job *j, const kolo_station *station, int op, int64_t leaf)
{
    const kolo_plan *plan = &station->program->plan;
    const kolo_value *partial = &plan->values[plan->ops[op].in[0]];
    if (kolo_queued_is_alone(j)) return kolo_queued_met(station, op);
    return station->frame_blocks + partial->offset + (size_t)(leaf - j->share->first_leaf) * station->frame_stride;
}

static kolo_status sum_share(const kolo_queued_job *j, const kolo_station *station, int op, int64_t count)
{
    int leaves = (int)(j->share->end_leaf - j->share->first_leaf);
    if (kolo_queued_is_alone(j)) return KOLO_OK;
    return station->accelerator->sum(station->queue, kolo_queued_met(station, op),
                                     part_of(j, station, op, j->share->first_leaf), station->frame_stride, leaves,
                                     count);
}

static kolo_status sum_batch(const kolo_queued_job *j, const kolo_station *station, int op, int64_t count)
{
    const kolo_accelerator *accelerator = station->accelerator;
    int64_t leaves = kolo_batch_leaves(j->share->batch);
    size_t row = (size_t)count * sizeof(double);
    KOLO_TRY(accelerator->clear(station->queue, station->brought, (size_t)leaves * row));
    for (int64_t leaf = j->share->first_leaf; leaf < j->share->end_leaf; leaf++)
        KOLO_TRY(accelerator->copy(station->queue, station->brought + (size_t)leaf * row, part_of(j, station, op, leaf),
                                   row));
    void *brought = station->brought;
    KOLO_TRY(sum_over_group(j, station, brought, leaves * count));
    return accelerator->sum(station->queue, kolo_queued_met(station, op), station->brought, row, (int)leaves, count);
}

kolo_status kolo_queued_meet(const kolo_queued_job *j, int op)
{
    const kolo_plan *plan = &j->queued->program->plan;
    const kolo_station *station = &j->queued->stations[plan->ops[op].device];
    int64_t count = kolo_shape_count(plan->values[plan->ops[op].out[0]].shape);
    bool others = kolo_queued_asks_others(j, op);
    if (others && j->share->deterministic) return sum_batch(j, station, op, count);
    KOLO_TRY(sum_share(j, station, op, count));
    return others ? sum_over_group(j, station, kolo_queued_met(station, op), count) : KOLO_OK;
}
