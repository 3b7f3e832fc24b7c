/* Where microbatches meet on an accelerator: what they brought is added up, and over the members of a group where the
 * layer says so. See queued.h; meeting.c is the host's.
 *
 * A sum of sums would depend on who had which microbatches. In deterministic mode every member therefore gets what each
 * microbatch of the batch brought: all members add up arrays in which each has filled in its own microbatches, the
 * others' being zeros, which is exact in any order, and then all add in the order of the microbatches. */
#include <stdlib.h>

#include "engine/queued.h"

bool kolo_queued_is_alone(const kolo_queued_job *j)
{
    return j->shard->end_microbatch - j->shard->first_microbatch == 1;
}

bool kolo_queued_asks_others(const kolo_queued_job *j, int op)
{
    const kolo_shard *shard = j->shard;
    return j->queued->program->plan.ops[op].across && shard->group && shard->group->size > 1;
}

void *kolo_queued_reduced(const kolo_station *station, int op)
{
    const kolo_plan *plan = &station->program->plan;
    return (char *)station->reduced + plan->values[plan->ops[op].out[0]].offset;
}

/* ---------------------------------------------------------------- memory */

bool kolo_queued_meets_others(const kolo_program *program)
{
    bool reduces = false;
    for (int o = 0; o < program->plan.op_count; o++)
        reduces = reduces || (program->plan.ops[o].kind == KOLO_OP_REDUCE && program->plan.ops[o].across);
    return reduces;
}

/* The longest sum that a station's microbatches bring to others. */
static size_t longest(const kolo_station *station)
{
    const kolo_plan *plan = &station->program->plan;
    size_t bytes = 0;
    for (int o = 0; o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        bool here = op->kind == KOLO_OP_REDUCE && op->across && op->device == station->number;
        if (here && plan->values[op->out[0]].bytes > bytes) bytes = plan->values[op->out[0]].bytes;
    }
    return bytes;
}

kolo_status kolo_queued_reserve_meetings(kolo_queued *queued, int64_t samples)
{
    const kolo_program *program = queued->program;
    int64_t microbatches = (samples + program->plan.microbatch - 1) / program->plan.microbatch;
    if (!program->model->settings.deterministic || microbatches <= queued->meeting_room) return KOLO_OK;
    for (int s = 0; s < queued->station_count; s++) {
        kolo_station *station = &queued->stations[s];
        station->accelerator->release(station->stream, station->brought);
        station->brought = NULL;
        size_t bytes = (size_t)microbatches * longest(station);
        if (bytes == 0) continue;
        KOLO_TRY(station->accelerator->allocate(station->stream, bytes, "sums over the microbatches",
                                                (void **)&station->brought));
    }
    queued->meeting_room = microbatches;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- over the group */

static kolo_status sum_on_host(const kolo_queued_job *j, const kolo_station *station, double *values, int64_t count)
{
    const kolo_accelerator *accelerator = station->accelerator;
    kolo_comm *group = j->shard->group;
    size_t bytes = (size_t)count * sizeof *values;
    double *sums = malloc(bytes);
    if (!sums) return kolo_fail_memory(bytes, "sums over the microbatches");
    kolo_status status = accelerator->copy(station->stream, sums, values, bytes);
    if (status == KOLO_OK) status = accelerator->finish(station->stream);
    if (status == KOLO_OK) status = group->kind->allreduce(group, sums, count, KOLO_TYPE_DOUBLE);
    if (status == KOLO_OK) status = accelerator->copy(station->stream, values, sums, bytes);
    free(sums);
    return status;
}

/* The group's streams are the members' homes. */
static kolo_status sum_over_group(const kolo_queued_job *j, const kolo_station *station, double *values, int64_t count)
{
    void *together = j->queued->together;
    if (!together || station->number > 0) return sum_on_host(j, station, values, count);
    return station->accelerator->allreduce(station->stream, together, values, count, KOLO_TYPE_DOUBLE);
}

/* ---------------------------------------------------------------- a meeting */

/* Every microbatch's part is in activations of its own, at the same place; that of one alone is where the sum belongs.
 */
static const char *part_of(const kolo_queued_job *j, const kolo_station *station, int op, int64_t microbatch)
{
    const kolo_plan *plan = &station->program->plan;
    const kolo_value *partial = &plan->values[plan->ops[op].in[0]];
    if (kolo_queued_is_alone(j)) return kolo_queued_reduced(station, op);
    return station->activation_blocks + partial->offset +
           (size_t)(microbatch - j->shard->first_microbatch) * station->activation_stride;
}

static kolo_status sum_shard(const kolo_queued_job *j, const kolo_station *station, int op, int64_t count)
{
    int microbatches = (int)(j->shard->end_microbatch - j->shard->first_microbatch);
    if (kolo_queued_is_alone(j)) return KOLO_OK;
    return station->accelerator->sum(station->stream, kolo_queued_reduced(station, op),
                                     part_of(j, station, op, j->shard->first_microbatch), station->activation_stride,
                                     microbatches, count);
}

static kolo_status sum_batch(const kolo_queued_job *j, const kolo_station *station, int op, int64_t count)
{
    const kolo_accelerator *accelerator = station->accelerator;
    int64_t microbatches = kolo_batch_microbatches(j->shard->batch);
    size_t row = (size_t)count * sizeof(double);
    KOLO_TRY(accelerator->clear(station->stream, station->brought, (size_t)microbatches * row));
    for (int64_t microbatch = j->shard->first_microbatch; microbatch < j->shard->end_microbatch; microbatch++)
        KOLO_TRY(accelerator->copy(station->stream, station->brought + (size_t)microbatch * row,
                                   part_of(j, station, op, microbatch), row));
    void *brought = station->brought;
    KOLO_TRY(sum_over_group(j, station, brought, microbatches * count));
    return accelerator->sum(station->stream, kolo_queued_reduced(station, op), station->brought, row, (int)microbatches,
                            count);
}

kolo_status kolo_queued_meet(const kolo_queued_job *j, int op)
{
    const kolo_plan *plan = &j->queued->program->plan;
    const kolo_station *station = &j->queued->stations[plan->ops[op].device];
    int64_t count = kolo_shape_count(plan->values[plan->ops[op].out[0]].shape);
    bool others = kolo_queued_asks_others(j, op);
    if (others && j->shard->deterministic) return sum_batch(j, station, op, count);
    KOLO_TRY(sum_shard(j, station, op, count));
    return others ? sum_over_group(j, station, kolo_queued_reduced(station, op), count) : KOLO_OK;
}
