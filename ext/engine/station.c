/* One station's memory. See station.h. */
#include "engine/station.h"

#include <stdlib.h>
#include <string.h>

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static kolo_status allocate(kolo_station *station, size_t bytes, const char *what, void *memory)
{
    return station->accelerator->allocate(station->stream, bytes, what, memory);
}

/* ---------------------------------------------------------------- weights */

/* Elements or bytes: from the first that is needed to behind the last. */
typedef struct extent {
    size_t first, end;
} extent;

static void stretch(extent *whole, size_t first, size_t count)
{
    if (whole->end == 0 || first < whole->first) whole->first = first;
    if (first + count > whole->end) whole->end = first + count;
}

static bool is_carried(const kolo_station *station, const kolo_value *value)
{
    return value->kind == KOLO_VALUE_WEIGHTS && value->view_of < 0 && value->memory == station->number;
}

static size_t place_of(const kolo_station *station, const kolo_value *value)
{
    if (!value->in_place) return value->offset;
    return (size_t)station->program->model->parameters[value->parameter].offset * sizeof(float);
}

static size_t bytes_of(const kolo_value *value)
{
    return value->in_place ? (size_t)kolo_shape_count(value->shape) * sizeof(float) : value->bytes;
}

/* What goes along in one copy with the value before: at most the gap that places are aligned by lies between. */
static void carry(kolo_station *station, const char *from, char *to, size_t bytes)
{
    kolo_carried *last = station->carried_count > 0 ? &station->carried[station->carried_count - 1] : NULL;
    size_t gap = last ? (size_t)(from - last->from) - last->bytes : 0;
    bool follows = last && from > last->from && gap < 64 && to - last->to == from - last->from;
    if (follows) last->bytes += gap + bytes;
    else station->carried[station->carried_count++] = (kolo_carried){from, to, bytes};
}

static void carry_all(kolo_station *station, const kolo_station *home, bool in_place)
{
    const char *from = in_place ? (const char *)home->weights.canonical : home->weights.packed;
    char *to = in_place ? (char *)(uintptr_t)station->weights.canonical : station->weights.packed;
    for (int v = 0; v < station->program->plan.value_count; v++) {
        const kolo_value *value = &station->program->plan.values[v];
        if (!is_carried(station, value) || value->in_place != in_place) continue;
        size_t at = place_of(station, value);
        carry(station, from + at, (char *)((uintptr_t)to + at), bytes_of(value));
    }
}

/* Weights are found where they would be if the station had all of them. */
static kolo_status open_part(kolo_station *station, extent part, char **block, void **base)
{
    size_t bytes = part.end - part.first;
    *base = NULL;
    if (bytes == 0) return KOLO_OK;
    KOLO_TRY(allocate(station, bytes, "a model's weights", block));
    *base = (void *)((uintptr_t)*block - part.first);
    return KOLO_OK;
}

static kolo_status open_some_weights(kolo_station *station, const kolo_station *home)
{
    const kolo_plan *plan = &station->program->plan;
    extent parts[2] = {{0, 0}, {0, 0}}; /* packed, in place */
    void *canonical;
    for (int v = 0; v < plan->value_count; v++)
        if (is_carried(station, &plan->values[v]))
            stretch(&parts[plan->values[v].in_place], place_of(station, &plan->values[v]), bytes_of(&plan->values[v]));
    parts[0].first = parts[0].first / 256 * 256; /* as aligned there as at home */
    parts[1].first = parts[1].first / 256 * 256;
    KOLO_TRY(open_part(station, parts[0], &station->packed_block, &station->weights.packed));
    KOLO_TRY(open_part(station, parts[1], &station->weights_block, &canonical));
    station->weights.canonical = canonical;
    station->carried = calloc((size_t)plan->value_count + 1, sizeof *station->carried);
    if (!station->carried) return kolo_fail_memory((size_t)plan->value_count * sizeof *station->carried, "a station");
    carry_all(station, home, false);
    carry_all(station, home, true);
    return KOLO_OK;
}

static kolo_status open_all_weights(kolo_station *station)
{
    size_t bytes = (size_t)station->program->model->weight_count * sizeof(float);
    KOLO_TRY(allocate(station, bytes + 1, "a model's weights", &station->weights_block));
    KOLO_TRY(allocate(station, station->program->weights_bytes + 1, "a model's weights", &station->packed_block));
    const void *weights = station->weights_block;
    station->weights.canonical = weights;
    station->weights.packed = station->packed_block;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- open and close */

/* What the loss is told, a layer of a learner's own is, too. */
static bool is_told(const kolo_station *station)
{
    const kolo_plan *plan = &station->program->plan;
    bool told = false;
    for (int o = 0; o < plan->op_count; o++) {
        kolo_op_kind kind = plan->ops[o].kind;
        bool asks = kind == KOLO_OP_LOSS || kind == KOLO_OP_DENSE_LOSS || kind == KOLO_OP_CUSTOM;
        told = told || (asks && plan->ops[o].device == station->number);
    }
    return told;
}

static size_t largest_gradient(const kolo_station *station)
{
    size_t bytes = 0;
    for (int s = 0; s < station->program->segment_count; s++) {
        const kolo_segment *segment = &station->program->segments[s];
        if (segment->device == station->number && segment->gradient_bytes > bytes) bytes = segment->gradient_bytes;
    }
    return bytes;
}

kolo_status kolo_station_open(kolo_station *station, const kolo_station *home)
{
    const kolo_program *program = station->program;
    station->told = program->memories == 1 || is_told(station);
    KOLO_TRY(home ? open_some_weights(station, home) : open_all_weights(station));
    if (home) KOLO_TRY(allocate(station, largest_gradient(station) + 1, "a gradient", &station->gradient));
    KOLO_TRY(allocate(station, program->reduced_bytes + 1, "sums over the microbatches", &station->reduced));
    KOLO_TRY(allocate(station, program->workspace_bytes[station->number] + 64, "the activations of a batch",
                      &station->workspace.block));
    KOLO_TRY(allocate(station, program->scratch_bytes + 64, "an operation's own memory", &station->workspace.scratch));
    return allocate(station, sizeof *station->step_parameters, "a step's numbers", &station->step_parameters);
}

void kolo_station_close(kolo_station *station)
{
    const kolo_accelerator *accelerator = station->accelerator;
    if (!station->stream) return;
    void *const memory[] = {station->weights_block,     station->packed_block,   station->gradient,
                            station->reduced,           station->brought,        station->workspace.block,
                            station->workspace.scratch, station->step_parameters};
    kolo_station_close_activations(station);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) accelerator->release(station->stream, memory[i]);
    accelerator->free_event(station->stream, station->event);
    free(station->carried);
    station->event = NULL;
    station->carried = NULL;
}

/* ---------------------------------------------------------------- activations */

/* Home has what all samples are to give. */
static kolo_status open_samples(kolo_station *station, kolo_activations *activations)
{
    const kolo_plan *plan = &station->program->plan;
    kolo_shape outputs = plan->values[plan->output].shape;
    size_t numbers = (size_t)(plan->microbatch * kolo_shape_count(outputs));
    size_t rows = numbers / (size_t)outputs.dim[outputs.rank - 1];
    if (station->number > 0 && !station->told) return KOLO_OK;
    if (plan->labels) KOLO_TRY(allocate(station, rows * sizeof(int32_t), "labels", &activations->labels));
    if (plan->targets) KOLO_TRY(allocate(station, numbers * sizeof(float), "targets", &activations->targets));
    if (!plan->weights) return KOLO_OK;
    return allocate(station, (size_t)plan->microbatch * sizeof(float), "weights of samples", &activations->weights);
}

static kolo_status open_activations(kolo_station *station, int number)
{
    const kolo_plan *plan = &station->program->plan;
    kolo_activations *made = station->activation_sets[number] = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "activations");
    made->program = station->program;
    made->block = station->activation_blocks + (size_t)number * station->activation_stride;
    made->memory = calloc((size_t)plan->value_count, sizeof *made->memory);
    if (!made->memory) return kolo_fail_memory((size_t)plan->value_count * sizeof *made->memory, "activations");
    if (station->program->memories > 1 && station->number == 0) /* whoever reads them */
        made->memory[plan->input] = (char *)made->block + plan->values[plan->input].offset;
    return open_samples(station, made);
}

static void close_activations(kolo_station *station, kolo_activations *activations)
{
    if (!activations) return;
    station->accelerator->release(station->stream, activations->labels);
    station->accelerator->release(station->stream, activations->targets);
    station->accelerator->release(station->stream, activations->weights);
    free(activations->memory);
    free(activations);
}

void kolo_station_close_activations(kolo_station *station)
{
    for (int i = 0; i < station->activation_set_count; i++) close_activations(station, station->activation_sets[i]);
    station->accelerator->release(station->stream, station->activation_blocks);
    free(station->activation_sets);
    station->activation_sets = NULL;
    station->activation_blocks = NULL;
    station->activation_set_count = 0;
}

kolo_status kolo_station_open_activations(kolo_station *station, int count)
{
    kolo_station_close_activations(station);
    station->activation_stride = aligned(station->program->activation_bytes[station->number] + 1);
    size_t bytes = (size_t)count * station->activation_stride;
    KOLO_TRY(allocate(station, bytes, "the activations of a batch", &station->activation_blocks));
    station->activation_sets = calloc((size_t)count, sizeof *station->activation_sets);
    if (!station->activation_sets)
        return kolo_fail_memory((size_t)count * sizeof *station->activation_sets, "activations");
    while (station->activation_set_count < count) KOLO_TRY(open_activations(station, station->activation_set_count++));
    return KOLO_OK;
}
