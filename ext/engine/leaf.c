/* One leaf, from the data set to the fold: see leaf.h. */
#include "engine/leaf.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/tokens.h"
#include "data/data.h"

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Samples of the leaf, from where they were gathered or from the data set, into the frame; zeros behind them where the
 * leaf is not full. */
static kolo_status gather(kolo_engine *engine, kolo_leaf *leaf, const kolo_share *share)
{
    const kolo_batch *batch = share->batch;
    const kolo_frame *frame = leaf->frame;
    int64_t first = leaf->number * batch->leaf, began = nanoseconds();
    int64_t left = batch->samples - first;
    int count = left < batch->leaf ? (int)left : batch->leaf;
    const int32_t *order = batch->order ? batch->order + first : NULL;
    float *input = kolo_frame_input(frame);
    const kolo_plan *plan = &frame->program->plan;
    kolo_gathered to = {input, frame->labels, frame->targets, frame->weights,
                        kolo_shape_count(plan->values[plan->output].shape)};
    kolo_gather_call call = {.training = plan->dropout,
                             .seed = share->seed,
                             .step = batch->step,
                             .first_sample = first,
                             .stoppable = share->stoppable};
    if (share->staged) kolo_staged_copy(share->staged, share->data, first, count, &to);
    else KOLO_TRY(kolo_data_gather(share->data, &call, order, batch->first + first, count, &to));
    size_t elements = (size_t)kolo_shape_count(share->data->shape);
    memset(input + (size_t)count * elements, 0, (size_t)(batch->leaf - count) * elements * sizeof *input);
    atomic_fetch_add(&engine->sliced_bytes, count * (int64_t)kolo_gathered_bytes(share->data, &to));
    atomic_fetch_add(&engine->slicing_nanoseconds, nanoseconds() - began);
    leaf->samples = count;
    return KOLO_OK;
}

static void keep_outputs(const kolo_leaf *leaf, const kolo_share *share)
{
    const kolo_plan *plan = &leaf->frame->program->plan;
    size_t elements = (size_t)kolo_shape_count(plan->values[plan->output].shape);
    float *target = share->outputs + (size_t)leaf->number * (size_t)share->batch->leaf * elements;
    memcpy(target, kolo_frame_output(leaf->frame), (size_t)leaf->samples * elements * sizeof *target);
}

static void bind(const kolo_leaf *leaf, const kolo_engine *engine, int segment, const kolo_bench *bench)
{
    kolo_blocks blocks = {.weights = &engine->weights,
                          .gradient = leaf->node.gradient,
                          .gradient_first = leaf->gradient_first,
                          .met = engine->met};
    kolo_frame_bind(leaf->frame, segment, bench, &blocks);
}

kolo_status kolo_leaf_begin(kolo_leaf *leaf, kolo_engine *engine, const kolo_share *share, kolo_fold *fold,
                            int64_t number, const kolo_bench *bench)
{
    leaf->number = number;
    leaf->node = (kolo_node){.index = number, .totals = {.used = engine->program->plan.metric_sums}};
    if (fold) KOLO_TRY(kolo_fold_borrow(fold, &leaf->node.gradient));
    bind(leaf, engine, 0, bench);
    KOLO_TRY(gather(engine, leaf, share));
    return kolo_tokens_check(&engine->program->plan, share->batch, number * share->batch->leaf, leaf->samples,
                             kolo_frame_input(leaf->frame));
}

kolo_status kolo_leaf_run(kolo_leaf *leaf, kolo_engine *engine, const kolo_share *share, int segment,
                          const kolo_bench *bench)
{
    kolo_call call = {.samples = leaf->samples,
                      .first_sample = leaf->number * share->batch->leaf,
                      .seed = share->seed,
                      .step = share->batch->step,
                      .loss_scale = share->loss_scale,
                      .totals = &leaf->node.totals};
    if (segment > 0) bind(leaf, engine, segment, bench);
    return kolo_program_run(leaf->frame, segment, bench, call);
}

kolo_status kolo_leaf_end(kolo_leaf *leaf, const kolo_share *share, kolo_fold *fold)
{
    if (share->outputs) keep_outputs(leaf, share);
    kolo_node node = leaf->node;
    leaf->node.gradient = NULL; /* the fold's */
    return fold ? kolo_fold_insert(fold, node) : KOLO_OK;
}

void kolo_leaf_drop(kolo_leaf *leaf, kolo_fold *fold)
{
    if (fold) kolo_fold_return(fold, leaf->node.gradient);
    leaf->node.gradient = NULL;
}

void kolo_gate_enter(sem_t *gate)
{
    while (gate && sem_wait(gate) != 0 && errno == EINTR) continue;
}

void kolo_gate_leave(sem_t *gate)
{
    if (gate) sem_post(gate);
}
