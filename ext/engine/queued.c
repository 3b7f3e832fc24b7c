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
    return queued->accelerator->allocate(queued->queue, bytes, what, memory);
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
        KOLO_TRY(queued->accelerator->open(device, &station->queue));
        program->queues[s] = station->queue;
        if (s == 0) program->plan.device_number = device;
    }
    queued->queue = program->plan.queue = program->queues[0];
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
    queued->moment = queued->stations[0].moment;
    return KOLO_OK;
}

static kolo_status open_memory(kolo_queued *queued)
{
    const kolo_program *program = queued->program;
    size_t sums = (size_t)(program->plan.metric_sums + 4) * sizeof(double);
    queued->totals_stride = aligned(sums);
    KOLO_TRY(open_stations(queued));
    KOLO_TRY(queued->accelerator->allocate_host(queued->queue, KOLO_MOMENTS * sizeof *queued->moments,
                                                (void **)&queued->moments));
    if (!program->plan.training) return KOLO_OK;
    int64_t floats = (int64_t)(program->gradient_bytes / sizeof(float));
    return kolo_fold_open(floats, kolo_program_fold_memory(program), &queued->fold);
}

kolo_status kolo_queued_open(const kolo_model *model, kolo_purpose purpose, int leaf, int replica, kolo_queued **queued)
{
    kolo_queued *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an engine");
    made->accelerator = model->backend->accelerator;
    kolo_status status;
    KOLO_GO(fail, kolo_program_begin(model, purpose, leaf, &made->program));
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

/* Those of a leaf: first that of its samples, then of each segment. */
static kolo_queue *whose_mark(const kolo_queued *queued, int number)
{
    return number == 0 ? queued->queue : queued->stations[queued->program->segments[number - 1].device].queue;
}

static void close_frames(kolo_queued *queued)
{
    int each = segments_of(queued) + 1;
    for (int i = 0; queued->marks && i < queued->frame_count * each; i++)
        queued->accelerator->free_mark(whose_mark(queued, i % each), queued->marks[i]);
    free(queued->marks);
    for (int s = 0; s < queued->station_count; s++) kolo_station_close_frames(&queued->stations[s]);
    queued->marks = NULL;
    queued->frame_count = 0;
    queued->memory++;
}

static void forget_turns(kolo_queued *queued)
{
    for (int i = 0; i < KOLO_TURNS; i++) {
        queued->accelerator->free_recording(queued->queue, queued->turns[i].recording);
        queued->accelerator->free_recording(queued->queue, queued->turns[i].after);
        free(queued->turns[i].nodes);
        queued->turns[i] = (kolo_turn){0};
    }
}

static void close_rings(kolo_queued *queued)
{
    for (int i = 0; i < KOLO_MOMENTS; i++) {
        queued->accelerator->free_mark(queued->queue, queued->copied[i]);
        queued->accelerator->free_mark(queued->queue, queued->arrivals[i].mark);
    }
    queued->accelerator->release_host(queued->queue, queued->arrivals_block);
    queued->accelerator->release_host(queued->queue, queued->moments);
}

static void close_totals(kolo_queued *queued)
{
    queued->accelerator->release(queued->queue, queued->totals);
    queued->accelerator->release(queued->queue, queued->parts);
    for (int s = 1; s < queued->station_count; s++)
        queued->accelerator->release(queued->stations[s].queue, queued->stations[s].totals);
    for (int s = 0; s < queued->station_count; s++) queued->stations[s].totals = NULL;
    queued->totals = queued->parts = NULL;
    queued->totals_room = 0;
}

void kolo_queued_close(kolo_queued **queued)
{
    kolo_queued *closed = *queued;
    *queued = NULL;
    if (!closed) return;
    if (closed->queue) {
        forget_turns(closed);
        kolo_fold_close(&closed->fold);
        kolo_residence_close(&closed->residence);
        close_frames(closed);
        close_totals(closed);
        close_rings(closed);
    }
    for (int s = closed->station_count - 1; s >= 0; s--) kolo_station_close(&closed->stations[s]);
    if (closed->program) kolo_program_close(&closed->program);
    for (int s = closed->station_count - 1; s >= 0; s--) closed->accelerator->close(&closed->stations[s].queue);
    free(closed->stations);
    free(closed);
}

/* ---------------------------------------------------------------- weights and samples */

kolo_status kolo_queued_store(kolo_queued *queued, const float *weights)
{
    size_t bytes = (size_t)queued->program->model->weight_count * sizeof *weights;
    KOLO_TRY(queued->accelerator->copy(queued->queue, queued->weights, weights, bytes));
    KOLO_TRY(kolo_program_pack_all(queued->program, queued->weights, queued->stations[0].weights.packed));
    return kolo_stations_carry_weights(queued);
}

kolo_status kolo_queued_attach(kolo_queued *queued, const kolo_data *data, int64_t samples, int64_t wanted)
{
    KOLO_TRY(queued->accelerator->finish(queued->queue));
    for (int i = 0; i < KOLO_MOMENTS; i++) queued->arrivals[i].comes = false; /* of a training that was interrupted */
    queued->arrived = queued->given;
    KOLO_TRY(kolo_queued_reserve_meetings(queued, samples));
    KOLO_TRY(kolo_residence_attach(&queued->residence, queued->program, data, wanted));
    return kolo_residence_expect(&queued->residence, (queued->totals_room - 1) * queued->program->plan.leaf, samples);
}

/* ---------------------------------------------------------------- memory of a share */

/* A program of one segment is through with a leaf before the next. */
static kolo_status open_frames(kolo_queued *queued, int64_t leaves)
{
    int wanted = segments_of(queued) > 1 ? (int)leaves : 1;
    if (wanted <= queued->frame_count) return KOLO_OK;
    close_frames(queued);
    size_t marks = (size_t)wanted * (size_t)(segments_of(queued) + 1);
    queued->marks = calloc(marks, sizeof *queued->marks);
    if (!queued->marks) return kolo_fail_memory(marks * sizeof *queued->marks, "frames");
    for (int s = 0; s < queued->station_count; s++) KOLO_TRY(kolo_station_open_frames(&queued->stations[s], wanted));
    queued->frame_count = wanted;
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
        KOLO_TRY(queued->accelerator->allocate(station->queue, bytes, "sums of losses", (void **)&station->totals));
    }
    return KOLO_OK;
}

static kolo_status open_totals(kolo_queued *queued, int64_t leaves)
{
    size_t bytes = (size_t)leaves * queued->totals_stride;
    if (leaves <= queued->totals_room) return KOLO_OK;
    close_totals(queued);
    queued->memory++;
    KOLO_TRY(allocate(queued, bytes, "sums of losses", &queued->totals));
    queued->stations[0].totals = queued->totals;
    if (queued->part_count > 0) KOLO_TRY(open_parts(queued, bytes));
    queued->totals_room = leaves;
    return KOLO_OK;
}

/* Where totals that come later arrive; what is on its way moves along. */
static kolo_status open_arrivals(kolo_queued *queued, int64_t leaves)
{
    size_t bytes = (size_t)leaves * queued->totals_stride,
           before = (size_t)queued->arrivals_room * queued->totals_stride;
    char *block = NULL;
    if (!queued->program->plan.training || leaves <= queued->arrivals_room) return KOLO_OK;
    KOLO_TRY(queued->accelerator->finish(queued->queue));
    KOLO_TRY(queued->accelerator->allocate_host(queued->queue, KOLO_MOMENTS * bytes, (void **)&block));
    for (size_t i = 0; i < KOLO_MOMENTS; i++) {
        if (before > 0) memcpy(block + i * bytes, queued->arrivals_block + i * before, before);
        queued->arrivals[i].totals = block + i * bytes;
    }
    queued->accelerator->release_host(queued->queue, queued->arrivals_block);
    queued->arrivals_block = block;
    queued->arrivals_room = leaves;
    return KOLO_OK;
}

/* The fold keeps what is given back to it. */
static kolo_status open_gradients(kolo_queued *queued, int64_t leaves)
{
    if (!queued->fold) return KOLO_OK;
    float **gradients = calloc((size_t)leaves, sizeof *gradients);
    if (!gradients) return kolo_fail_memory((size_t)leaves * sizeof *gradients, "gradients");
    kolo_status status = KOLO_OK;
    for (int64_t i = 0; i < leaves && status == KOLO_OK; i++) status = kolo_fold_borrow(queued->fold, &gradients[i]);
    for (int64_t i = 0; i < leaves; i++) kolo_fold_return(queued->fold, gradients[i]);
    free(gradients);
    return status;
}

static kolo_status open_all(kolo_queued *queued, int64_t leaves)
{
    KOLO_TRY(open_frames(queued, leaves));
    KOLO_TRY(open_totals(queued, leaves + 1));
    KOLO_TRY(open_arrivals(queued, leaves + 1));
    return open_gradients(queued, leaves);
}

/* Samples that lie on the device make way, and come share by share from then on. */
kolo_status kolo_queued_reserve(kolo_queued *queued, int64_t leaves)
{
    if (leaves < 1) leaves = 1;
    kolo_status status = open_all(queued, leaves);
    if (status != KOLO_MEMORY || !kolo_residence_yield(&queued->residence)) return status;
    kolo_failure_take();
    return open_all(queued, leaves);
}
