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

static kolo_status open_memory(kolo_queued *queued)
{
    const kolo_program *program = queued->program;
    const kolo_accelerator *accelerator = queued->accelerator;
    size_t weights = (size_t)program->model->weight_count * sizeof(float);
    size_t sums = (size_t)(program->plan.metric_sums + 4) * sizeof(double);
    queued->totals_stride = aligned(sums);
    KOLO_TRY(allocate(queued, weights + 1, "a model's weights", &queued->weights));
    KOLO_TRY(allocate(queued, program->weights_bytes + 1, "a model's weights", &queued->packed));
    KOLO_TRY(allocate(queued, program->met_bytes + 1, "sums over the leaves", &queued->met));
    KOLO_TRY(allocate(queued, program->bench_bytes + 64, "the activations of a batch", &queued->bench.block));
    KOLO_TRY(allocate(queued, program->scratch_bytes + 64, "an operation's own memory", &queued->bench.scratch));
    KOLO_TRY(allocate(queued, sizeof *queued->moment, "a step's numbers", &queued->moment));
    KOLO_TRY(accelerator->allocate_host(queued->queue, KOLO_MOMENTS * sizeof *queued->moments,
                                        (void **)&queued->moments));
    if (!program->plan.training) return KOLO_OK;
    int64_t floats = (int64_t)(program->gradient_bytes / sizeof(float));
    return kolo_fold_open(floats, kolo_program_fold_memory(program), &queued->fold);
}

kolo_status kolo_queued_open(const kolo_model *model, kolo_purpose purpose, int leaf, int device, kolo_queued **queued)
{
    kolo_queued *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an engine");
    made->accelerator = model->backend->accelerator;
    kolo_status status;
    KOLO_GO(fail, made->accelerator->open(device, &made->queue));
    KOLO_GO(fail, kolo_program_open(model, purpose, leaf, made->queue, &made->program));
    made->program->plan.device_number = device;
    KOLO_GO(fail, open_memory(made));
    *queued = made;
    return KOLO_OK;
fail:
    kolo_queued_close(&made);
    return status;
}

static void close_frame(kolo_queued *queued, kolo_frame *frame)
{
    if (!frame) return;
    queued->accelerator->release(queued->queue, frame->labels);
    queued->accelerator->release(queued->queue, frame->targets);
    queued->accelerator->release(queued->queue, frame->weights);
    free(frame->memory);
    free(frame);
}

static void close_frames(kolo_queued *queued)
{
    for (int i = 0; i < queued->frame_count; i++) close_frame(queued, queued->frames[i]);
    queued->accelerator->release(queued->queue, queued->frame_blocks);
    free(queued->frames);
    queued->frames = NULL;
    queued->frame_blocks = NULL;
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

void kolo_queued_close(kolo_queued **queued)
{
    kolo_queued *closed = *queued;
    *queued = NULL;
    if (!closed) return;
    if (closed->queue) {
        void *const memory[] = {closed->weights,       closed->packed, closed->met,   closed->bench.block,
                                closed->bench.scratch, closed->moment, closed->totals};
        forget_turns(closed);
        kolo_fold_close(&closed->fold);
        kolo_residence_close(&closed->residence);
        close_frames(closed);
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
            closed->accelerator->release(closed->queue, memory[i]);
        close_rings(closed);
    }
    if (closed->program) kolo_program_close(&closed->program);
    if (closed->queue) closed->accelerator->close(&closed->queue);
    free(closed);
}

/* ---------------------------------------------------------------- weights and samples */

kolo_status kolo_queued_store(kolo_queued *queued, const float *weights)
{
    size_t bytes = (size_t)queued->program->model->weight_count * sizeof *weights;
    KOLO_TRY(queued->accelerator->copy(queued->queue, queued->weights, weights, bytes));
    return kolo_program_pack_all(queued->program, queued->weights, queued->packed);
}

kolo_status kolo_queued_attach(kolo_queued *queued, const kolo_data *data, int64_t samples)
{
    KOLO_TRY(queued->accelerator->finish(queued->queue));
    for (int i = 0; i < KOLO_MOMENTS; i++) queued->arrivals[i].comes = false; /* of a training that was interrupted */
    queued->arrived = queued->given;
    KOLO_TRY(kolo_residence_attach(&queued->residence, queued->program, data));
    return kolo_residence_expect(&queued->residence, (queued->totals_room - 1) * queued->program->plan.leaf, samples);
}

/* ---------------------------------------------------------------- memory of a share */

static kolo_status open_frame(kolo_queued *queued, int number)
{
    const kolo_plan *plan = &queued->program->plan;
    kolo_shape outputs = plan->values[plan->output].shape;
    size_t numbers = (size_t)(plan->leaf * kolo_shape_count(outputs));
    size_t rows = numbers / (size_t)outputs.dim[outputs.rank - 1];
    kolo_frame *made = queued->frames[number] = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a frame");
    made->program = queued->program;
    made->block = queued->frame_blocks + (size_t)number * queued->frame_stride;
    made->memory = calloc((size_t)plan->value_count, sizeof *made->memory);
    if (!made->memory) return kolo_fail_memory((size_t)plan->value_count * sizeof *made->memory, "a frame");
    if (plan->labels) KOLO_TRY(allocate(queued, rows * sizeof(int32_t), "labels", &made->labels));
    if (plan->targets) KOLO_TRY(allocate(queued, numbers * sizeof(float), "targets", &made->targets));
    if (plan->weights)
        KOLO_TRY(allocate(queued, (size_t)plan->leaf * sizeof(float), "weights of samples", &made->weights));
    return KOLO_OK;
}

/* A program of one segment is through with a leaf before the next. */
static kolo_status open_frames(kolo_queued *queued, int64_t leaves)
{
    int wanted = queued->program->segment_count > 1 ? (int)leaves : 1;
    if (wanted <= queued->frame_count) return KOLO_OK;
    close_frames(queued);
    queued->frame_stride = aligned(queued->program->frame_bytes + 1);
    size_t bytes = (size_t)wanted * queued->frame_stride;
    KOLO_TRY(allocate(queued, bytes, "the activations of a batch", &queued->frame_blocks));
    queued->frames = calloc((size_t)wanted, sizeof *queued->frames);
    if (!queued->frames) return kolo_fail_memory((size_t)wanted * sizeof *queued->frames, "frames");
    while (queued->frame_count < wanted) KOLO_TRY(open_frame(queued, queued->frame_count++));
    return KOLO_OK;
}

static kolo_status open_totals(kolo_queued *queued, int64_t leaves)
{
    if (leaves <= queued->totals_room) return KOLO_OK;
    queued->accelerator->release(queued->queue, queued->totals);
    queued->totals = NULL;
    queued->totals_room = 0;
    queued->memory++;
    KOLO_TRY(allocate(queued, (size_t)leaves * queued->totals_stride, "sums of losses", &queued->totals));
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
