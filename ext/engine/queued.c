/* An engine on an accelerator: its memory. See queued.h. */
#include "engine/queued.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- open and close */

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static kolo_status allocate(kolo_queued *queued, size_t bytes, const char *what, void *memory)
{
    return queued->accelerator->allocate(queued->stream, bytes, what, memory);
}

static kolo_status open_queues(kolo_queued *queued, int replica)
{
    kolo_program *program = queued->program;
    size_t bytes = (size_t)program->memories * sizeof *queued->stations;
    queued->stations = calloc(1, bytes);
    if (!queued->stations) return kolo_fail_memory(bytes, "an engine");
    queued->station_count = program->memories;
    for (int s = 0; s < queued->station_count; s++) {
        kolo_station *station = &queued->stations[s];
        int device = kolo_model_device(program->model, replica, program->device[s]);
        *station = (kolo_station){.accelerator = queued->accelerator, .program = program, .number = s};
        KOLO_TRY(queued->accelerator->open(device, &station->stream));
        program->streams[s] = station->stream;
        if (s == 0) program->plan.device_number = device;
    }
    queued->stream = program->plan.stream = program->streams[0];
    return KOLO_OK;
}

static kolo_status open_stations(kolo_queued *queued)
{
    for (int s = 0; s < queued->station_count; s++) {
        KOLO_TRY(kolo_station_open(&queued->stations[s], s > 0 ? &queued->stations[0] : NULL));
        if (queued->station_count > 1) queued->part_count += queued->stations[s].told;
    }
    void *weights = queued->stations[0].weights_block;
    queued->weights = weights;
    queued->step_parameters = queued->stations[0].step_parameters;
    return KOLO_OK;
}

static kolo_status open_memory(kolo_queued *queued)
{
    const kolo_program *program = queued->program;
    size_t sums = (size_t)(program->plan.metric_sums + 4) * sizeof(double);
    queued->totals_stride = aligned(sums);
    KOLO_TRY(open_stations(queued));
    KOLO_TRY(queued->accelerator->allocate_host(queued->stream, KOLO_STEPS_AHEAD * sizeof *queued->steps_ahead,
                                                (void **)&queued->steps_ahead));
    if (!program->plan.training) return KOLO_OK;
    int64_t floats = (int64_t)(program->gradient_bytes / sizeof(float));
    return kolo_reduction_open(floats, kolo_program_reduction_memory(program), &queued->reduction);
}

kolo_status kolo_queued_open(const kolo_model *model, kolo_purpose purpose, int microbatch, int replica,
                             kolo_queued **queued)
{
    kolo_queued *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an engine");
    made->accelerator = model->backend->accelerator;
    kolo_status status;
    KOLO_GO(fail, kolo_program_begin(model, purpose, microbatch, &made->program));
    KOLO_GO(fail, open_queues(made, replica));
    KOLO_GO(fail, kolo_program_complete(made->program));
    KOLO_GO(fail, open_memory(made));
    *queued = made;
    return KOLO_OK;
fail:
    kolo_queued_close(&made);
    return status;
}

static int segments_of(const kolo_queued *queued)
{
    return queued->program->segment_count;
}

/* Those of a microbatch: first that of its samples, then of each segment. */
static kolo_stream *whose_event(const kolo_queued *queued, int number)
{
    return number == 0 ? queued->stream : queued->stations[queued->program->segments[number - 1].device].stream;
}

static void close_frames(kolo_queued *queued)
{
    int each = segments_of(queued) + 1;
    for (int i = 0; queued->events && i < queued->activation_set_count * each; i++)
        queued->accelerator->free_event(whose_event(queued, i % each), queued->events[i]);
    free(queued->events);
    for (int s = 0; s < queued->station_count; s++) kolo_station_close_activations(&queued->stations[s]);
    queued->events = NULL;
    queued->activation_set_count = 0;
    queued->memory++;
}

static void forget_entries(kolo_queued *queued)
{
    for (int i = 0; i < KOLO_GRAPH_CACHE_ENTRIES; i++) {
        queued->accelerator->free_captured_graph(queued->stream, queued->entries[i].captured_graph);
        queued->accelerator->free_captured_graph(queued->stream, queued->entries[i].after);
        free(queued->entries[i].nodes);
        queued->entries[i] = (kolo_graph_entry){0};
    }
}

static void close_rings(kolo_queued *queued)
{
    for (int i = 0; i < KOLO_STEPS_AHEAD; i++) {
        queued->accelerator->free_event(queued->stream, queued->copied[i]);
        queued->accelerator->free_event(queued->stream, queued->arrivals[i].event);
    }
    queued->accelerator->release_host(queued->stream, queued->arrivals_block);
    queued->accelerator->release_host(queued->stream, queued->steps_ahead);
}

static void close_totals(kolo_queued *queued)
{
    queued->accelerator->release(queued->stream, queued->totals);
    queued->accelerator->release(queued->stream, queued->parts);
    for (int s = 1; s < queued->station_count; s++)
        queued->accelerator->release(queued->stations[s].stream, queued->stations[s].totals);
    for (int s = 0; s < queued->station_count; s++) queued->stations[s].totals = NULL;
    queued->totals = queued->parts = NULL;
    queued->totals_room = 0;
}

void kolo_queued_close(kolo_queued **queued)
{
    kolo_queued *closed = *queued;
    *queued = NULL;
    if (!closed) return;
    if (closed->stream) {
        forget_entries(closed);
        kolo_reduction_close(&closed->reduction);
        kolo_dataset_cache_close(&closed->dataset_cache);
        close_frames(closed);
        close_totals(closed);
        close_rings(closed);
    }
    for (int s = closed->station_count - 1; s >= 0; s--) kolo_station_close(&closed->stations[s]);
    if (closed->program) kolo_program_close(&closed->program);
    for (int s = closed->station_count - 1; s >= 0; s--) closed->accelerator->close(&closed->stations[s].stream);
    free(closed->stations);
    free(closed);
}

/* ---------------------------------------------------------------- weights and samples */

kolo_status kolo_queued_store(kolo_queued *queued, const float *weights)
{
    size_t bytes = (size_t)queued->program->model->weight_count * sizeof *weights;
    KOLO_TRY(queued->accelerator->copy(queued->stream, queued->weights, weights, bytes));
    KOLO_TRY(kolo_program_pack_all(queued->program, queued->weights, queued->stations[0].weights.packed));
    return kolo_stations_carry_weights(queued);
}

kolo_status kolo_queued_attach(kolo_queued *queued, const kolo_data *data, int64_t samples, int64_t wanted)
{
    KOLO_TRY(queued->accelerator->finish(queued->stream));
    for (int i = 0; i < KOLO_STEPS_AHEAD; i++)
        queued->arrivals[i].comes = false; /* of a training that was interrupted */
    queued->arrived = queued->given;
    KOLO_TRY(kolo_queued_reserve_meetings(queued, samples));
    KOLO_TRY(kolo_dataset_cache_attach(&queued->dataset_cache, queued->program, data, wanted));
    return kolo_dataset_cache_expect(&queued->dataset_cache,
                                     (queued->totals_room - 1) * queued->program->plan.microbatch, samples);
}

/* ---------------------------------------------------------------- memory of a shard */

/* A program of one segment is through with a microbatch before the next. */
static kolo_status open_frames(kolo_queued *queued, int64_t microbatches)
{
    int wanted = segments_of(queued) > 1 ? (int)microbatches : 1;
    if (wanted <= queued->activation_set_count) return KOLO_OK;
    close_frames(queued);
    size_t events = (size_t)wanted * (size_t)(segments_of(queued) + 1);
    queued->events = calloc(events, sizeof *queued->events);
    if (!queued->events) return kolo_fail_memory(events * sizeof *queued->events, "activations");
    for (int s = 0; s < queued->station_count; s++)
        KOLO_TRY(kolo_station_open_activations(&queued->stations[s], wanted));
    queued->activation_set_count = wanted;
    return KOLO_OK;
}

/* What each station adds is its own until a step ends. */
static kolo_status open_parts(kolo_queued *queued, size_t bytes)
{
    kolo_station *home = &queued->stations[0];
    KOLO_TRY(allocate(queued, (size_t)queued->part_count * bytes, "sums of losses", &queued->parts));
    if (home->told) home->totals = queued->parts;
    for (int s = 1; s < queued->station_count; s++) {
        kolo_station *station = &queued->stations[s];
        if (!station->told) continue;
        KOLO_TRY(queued->accelerator->allocate(station->stream, bytes, "sums of losses", (void **)&station->totals));
    }
    return KOLO_OK;
}

static kolo_status open_totals(kolo_queued *queued, int64_t microbatches)
{
    size_t bytes = (size_t)microbatches * queued->totals_stride;
    if (microbatches <= queued->totals_room) return KOLO_OK;
    close_totals(queued);
    queued->memory++;
    KOLO_TRY(allocate(queued, bytes, "sums of losses", &queued->totals));
    queued->stations[0].totals = queued->totals;
    if (queued->part_count > 0) KOLO_TRY(open_parts(queued, bytes));
    queued->totals_room = microbatches;
    return KOLO_OK;
}

/* Where totals that come later arrive; what is on its way moves along. */
static kolo_status open_arrivals(kolo_queued *queued, int64_t microbatches)
{
    size_t bytes = (size_t)microbatches * queued->totals_stride,
           before = (size_t)queued->arrivals_room * queued->totals_stride;
    char *block = NULL;
    if (!queued->program->plan.training || microbatches <= queued->arrivals_room) return KOLO_OK;
    KOLO_TRY(queued->accelerator->finish(queued->stream));
    KOLO_TRY(queued->accelerator->allocate_host(queued->stream, KOLO_STEPS_AHEAD * bytes, (void **)&block));
    for (size_t i = 0; i < KOLO_STEPS_AHEAD; i++) {
        if (before > 0) memcpy(block + i * bytes, queued->arrivals_block + i * before, before);
        queued->arrivals[i].totals = block + i * bytes;
    }
    queued->accelerator->release_host(queued->stream, queued->arrivals_block);
    queued->arrivals_block = block;
    queued->arrivals_room = microbatches;
    return KOLO_OK;
}

/* The reduction keeps what is given back to it. */
static kolo_status open_gradients(kolo_queued *queued, int64_t microbatches)
{
    if (!queued->reduction) return KOLO_OK;
    float **gradients = calloc((size_t)microbatches, sizeof *gradients);
    if (!gradients) return kolo_fail_memory((size_t)microbatches * sizeof *gradients, "gradients");
    kolo_status status = KOLO_OK;
    for (int64_t i = 0; i < microbatches && status == KOLO_OK; i++)
        status = kolo_reduction_borrow(queued->reduction, &gradients[i]);
    for (int64_t i = 0; i < microbatches; i++) kolo_reduction_return(queued->reduction, gradients[i]);
    free(gradients);
    return status;
}

static kolo_status open_all(kolo_queued *queued, int64_t microbatches)
{
    KOLO_TRY(open_frames(queued, microbatches));
    KOLO_TRY(open_totals(queued, microbatches + 1));
    KOLO_TRY(open_arrivals(queued, microbatches + 1));
    return open_gradients(queued, microbatches);
}

/* Samples that lie on the device make way, and come shard by shard from then on. */
kolo_status kolo_queued_reserve(kolo_queued *queued, int64_t microbatches)
{
    if (microbatches < 1) microbatches = 1;
    kolo_status status = open_all(queued, microbatches);
    if (status != KOLO_MEMORY || !kolo_dataset_cache_yield(&queued->dataset_cache)) return status;
    kolo_failure_take();
    return open_all(queued, microbatches);
}
