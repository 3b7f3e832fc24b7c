/* What goes between the stations of a replica. See station.h. */
#include "engine/queued.h"

static const kolo_accelerator *accelerator_of(const kolo_queued *queued)
{
    return queued->accelerator;
}

/* ---------------------------------------------------------------- events */

/* `station` waits until `other` has come to where it is now. */
static kolo_status follow_here(kolo_station *station, kolo_station *other)
{
    KOLO_TRY(other->accelerator->record_event(other->stream, &other->event));
    return station->accelerator->wait_event(station->stream, other->event);
}

/* Of a microbatch after a segment; segment -1: after its samples were gathered. */
static kolo_event **event_of(const kolo_queued_job *j, int64_t microbatch, int segment)
{
    int each = j->queued->program->segment_count + 1;
    return &j->queued->events[(microbatch - j->shard->first_microbatch) * each + segment + 1];
}

/* The segment in which it is written; -1 for the features. */
static int segment_that_writes(const kolo_program *program, int value)
{
    const kolo_plan *plan = &program->plan;
    int base = kolo_plan_base(plan, value), found = -1;
    for (int s = 0; s < program->segment_count; s++)
        for (int o = program->segments[s].first; o < program->segments[s].end; o++)
            for (int i = 0; i < KOLO_OP_OUTS; i++) {
                int out = plan->ops[o].out[i];
                if (out >= 0 && kolo_plan_base(plan, out) == base) found = s;
            }
    return found;
}

static bool is_copied_from(const kolo_program *program, int segment)
{
    for (int o = 0; o < program->plan.op_count; o++) {
        const kolo_op *op = &program->plan.ops[o];
        if (op->kind == KOLO_OP_COPY && segment_that_writes(program, op->in[0]) == segment) return true;
    }
    return false;
}

static kolo_status leave_event(const kolo_queued_job *j, int64_t microbatch, int segment, const kolo_station *station)
{
    return station->accelerator->record_event(station->stream, event_of(j, microbatch, segment));
}

/* ---------------------------------------------------------------- a step */

static size_t totals_bytes(const kolo_queued_job *j)
{
    return (size_t)(j->shard->end_microbatch - j->shard->first_microbatch) * j->queued->totals_stride;
}

static kolo_status begin_other(const kolo_queued_job *j, kolo_station *station)
{
    kolo_station *home = &j->queued->stations[0];
    KOLO_TRY(follow_here(station, home));
    KOLO_TRY(station->accelerator->copy(station->stream, station->step_parameters, home->step_parameters,
                                        sizeof *home->step_parameters));
    return station->told ? station->accelerator->clear(station->stream, station->totals, totals_bytes(j)) : KOLO_OK;
}

kolo_status kolo_stations_begin(const kolo_queued_job *j)
{
    kolo_queued *queued = j->queued;
    if (queued->station_count == 1) return KOLO_OK;
    for (int s = 1; s < queued->station_count; s++) KOLO_TRY(begin_other(j, &queued->stations[s]));
    return KOLO_OK;
}

/* What each added, side by side in home's memory in the order of the stations, and then the sum. */
static kolo_status sum_totals(const kolo_queued_job *j)
{
    kolo_queued *queued = j->queued;
    kolo_station *home = &queued->stations[0];
    size_t stride = (size_t)queued->totals_room * queued->totals_stride;
    int64_t count = (int64_t)(totals_bytes(j) / sizeof(double));
    void *totals = queued->totals;
    return accelerator_of(queued)->sum(home->stream, totals, queued->parts, stride, queued->part_count, count);
}

static kolo_status end_other(const kolo_queued_job *j, kolo_station *station, int *part)
{
    kolo_queued *queued = j->queued;
    size_t stride = (size_t)queued->totals_room * queued->totals_stride;
    if (station->told)
        KOLO_TRY(station->accelerator->copy(station->stream, queued->parts + (size_t)(*part)++ * stride,
                                            station->totals, totals_bytes(j)));
    return follow_here(&queued->stations[0], station);
}

kolo_status kolo_stations_end(const kolo_queued_job *j)
{
    kolo_queued *queued = j->queued;
    int part = queued->stations[0].told;
    if (queued->station_count == 1) return KOLO_OK;
    for (int s = 1; s < queued->station_count; s++) KOLO_TRY(end_other(j, &queued->stations[s], &part));
    return sum_totals(j);
}

/* ---------------------------------------------------------------- weights */

static kolo_status carry(kolo_station *station)
{
    for (int i = 0; i < station->carried_count; i++) {
        const kolo_carried *run = &station->carried[i];
        KOLO_TRY(station->accelerator->copy(station->stream, run->to, run->from, run->bytes));
    }
    return KOLO_OK;
}

kolo_status kolo_stations_carry_weights(const kolo_queued *queued)
{
    kolo_station *home = &queued->stations[0];
    for (int s = 1; s < queued->station_count; s++) {
        KOLO_TRY(follow_here(&queued->stations[s], home));
        KOLO_TRY(carry(&queued->stations[s]));
    }
    for (int s = 1; s < queued->station_count; s++) KOLO_TRY(follow_here(home, &queued->stations[s]));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- a segment of a microbatch */

static bool is_first_of_station(const kolo_program *program, int segment)
{
    for (int s = 0; s < segment; s++)
        if (program->segments[s].device == program->segments[segment].device) return false;
    return true;
}

static kolo_status copy_array(kolo_station *station, void *to, const void *from, size_t bytes)
{
    return to ? station->accelerator->copy(station->stream, to, from, bytes) : KOLO_OK;
}

static kolo_status take_samples(const kolo_queued_job *j, int64_t microbatch, kolo_station *station)
{
    const kolo_plan *plan = &j->queued->program->plan;
    kolo_shape outputs = plan->values[plan->output].shape;
    size_t numbers = (size_t)(plan->microbatch * kolo_shape_count(outputs));
    size_t rows = numbers / (size_t)outputs.dim[outputs.rank - 1];
    const kolo_activations *from = kolo_queued_activations(j, 0, microbatch),
                           *to = kolo_queued_activations(j, station->number, microbatch);
    KOLO_TRY(station->accelerator->wait_event(station->stream, *event_of(j, microbatch, -1)));
    KOLO_TRY(copy_array(station, to->labels, from->labels, rows * sizeof *to->labels));
    KOLO_TRY(copy_array(station, to->targets, from->targets, numbers * sizeof *to->targets));
    return copy_array(station, to->weights, from->weights, (size_t)plan->microbatch * sizeof *to->weights);
}

kolo_status kolo_stations_gathered(const kolo_queued_job *j, int64_t microbatch)
{
    if (j->queued->station_count == 1) return KOLO_OK;
    return leave_event(j, microbatch, -1, &j->queued->stations[0]);
}

kolo_status kolo_stations_enter(const kolo_queued_job *j, int64_t microbatch, int number)
{
    const kolo_program *program = j->queued->program;
    kolo_station *station = &j->queued->stations[program->segments[number].device];
    bool takes = station->number > 0 && station->told && is_first_of_station(program, number);
    return takes ? take_samples(j, microbatch, station) : KOLO_OK;
}

static kolo_status give_gradient(const kolo_queued_job *j, int64_t microbatch, const kolo_segment *segment)
{
    kolo_station *station = &j->queued->stations[segment->device];
    float *all = j->gradients ? j->gradients[microbatch - j->shard->first_microbatch] : NULL;
    if (station->number == 0 || !all || segment->gradient_bytes == 0) return KOLO_OK;
    return station->accelerator->copy(station->stream, (char *)all + segment->gradient_first, station->gradient,
                                      segment->gradient_bytes);
}

kolo_status kolo_stations_leave(const kolo_queued_job *j, int64_t microbatch, int number)
{
    const kolo_program *program = j->queued->program;
    const kolo_segment *segment = &program->segments[number];
    if (j->queued->station_count == 1) return KOLO_OK;
    KOLO_TRY(give_gradient(j, microbatch, segment));
    if (!is_copied_from(program, number)) return KOLO_OK;
    return leave_event(j, microbatch, number, &j->queued->stations[segment->device]);
}

kolo_status kolo_stations_copy(const kolo_queued_job *j, int64_t microbatch, int number)
{
    const kolo_program *program = j->queued->program;
    const kolo_plan *plan = &program->plan;
    const kolo_op *op = &plan->ops[number];
    int from = kolo_plan_base(plan, op->in[0]), to = kolo_plan_base(plan, op->out[0]);
    kolo_station *station = &j->queued->stations[op->device];
    kolo_event *written = *event_of(j, microbatch, segment_that_writes(program, from));
    KOLO_TRY(station->accelerator->wait_event(station->stream, written));
    return station->accelerator->copy(station->stream,
                                      kolo_queued_activations(j, station->number, microbatch)->memory[to],
                                      kolo_queued_activations(j, plan->values[from].memory, microbatch)->memory[from],
                                      plan->values[to].bytes);
}
