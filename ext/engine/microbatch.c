/* One microbatch, from the data set to the reduction: see microbatch.h. */
#include "engine/microbatch.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "data/tokens.h"
#include "data/data.h"

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Samples of the microbatch, from where they were gathered or from the data set, into the activations; zeros behind
 * them where the microbatch is not full. */
static kolo_status gather(kolo_engine *engine, kolo_microbatch *microbatch, const kolo_shard *shard)
{
    const kolo_batch *batch = shard->batch;
    const kolo_activations *activations = microbatch->activations;
    int64_t first = microbatch->number * batch->microbatch, began = nanoseconds();
    int64_t left = batch->samples - first;
    int count = left < batch->microbatch ? (int)left : batch->microbatch;
    const int32_t *order = batch->order ? batch->order + first : NULL;
    float *input = kolo_activations_input(activations);
    const kolo_plan *plan = &activations->program->plan;
    kolo_gathered to = {input, activations->labels, activations->targets, activations->weights,
                        kolo_shape_count(plan->values[plan->output].shape)};
    kolo_gather_call call = {.training = plan->dropout,
                             .seed = shard->seed,
                             .step = batch->step,
                             .first_sample = first,
                             .stoppable = shard->stoppable};
    if (shard->staged) kolo_staged_copy(shard->staged, shard->data, first, count, &to);
    else KOLO_TRY(kolo_data_gather(shard->data, &call, order, batch->first + first, count, &to));
    size_t elements = (size_t)kolo_shape_count(shard->data->shape);
    memset(input + (size_t)count * elements, 0, (size_t)(batch->microbatch - count) * elements * sizeof *input);
    atomic_fetch_add(&engine->sliced_bytes, count * (int64_t)kolo_gathered_bytes(shard->data, &to));
    atomic_fetch_add(&engine->slicing_nanoseconds, nanoseconds() - began);
    microbatch->samples = count;
    return KOLO_OK;
}

static void keep_outputs(const kolo_microbatch *microbatch, const kolo_shard *shard)
{
    const kolo_plan *plan = &microbatch->activations->program->plan;
    size_t elements = (size_t)kolo_shape_count(plan->values[plan->output].shape);
    float *target = shard->outputs + (size_t)microbatch->number * (size_t)shard->batch->microbatch * elements;
    memcpy(target, kolo_activations_output(microbatch->activations),
           (size_t)microbatch->samples * elements * sizeof *target);
}

static void bind(const kolo_microbatch *microbatch, const kolo_engine *engine, int segment,
                 const kolo_workspace *workspace)
{
    kolo_blocks blocks = {.weights = &engine->weights,
                          .gradient = microbatch->node.gradient,
                          .gradient_first = microbatch->gradient_first,
                          .reduced = engine->reduced};
    kolo_activations_bind(microbatch->activations, segment, workspace, &blocks);
}

kolo_status kolo_microbatch_begin(kolo_microbatch *microbatch, kolo_engine *engine, const kolo_shard *shard,
                                  kolo_reduction *reduction, int64_t number, const kolo_workspace *workspace)
{
    microbatch->number = number;
    microbatch->node = (kolo_node){.index = number, .totals = {.used = engine->program->plan.metric_sums}};
    if (reduction) KOLO_TRY(kolo_reduction_borrow(reduction, &microbatch->node.gradient));
    bind(microbatch, engine, 0, workspace);
    KOLO_TRY(gather(engine, microbatch, shard));
    return kolo_tokens_check(&engine->program->plan, shard->batch, number * shard->batch->microbatch,
                             microbatch->samples, kolo_activations_input(microbatch->activations));
}

kolo_status kolo_microbatch_run(kolo_microbatch *microbatch, kolo_engine *engine, const kolo_shard *shard, int segment,
                                const kolo_workspace *workspace)
{
    kolo_call call = {.samples = microbatch->samples,
                      .first_sample = microbatch->number * shard->batch->microbatch,
                      .seed = shard->seed,
                      .step = shard->batch->step,
                      .loss_scale = shard->loss_scale,
                      .totals = &microbatch->node.totals};
    if (segment > 0) bind(microbatch, engine, segment, workspace);
    return kolo_program_run(microbatch->activations, segment, workspace, call);
}

kolo_status kolo_microbatch_end(kolo_microbatch *microbatch, const kolo_shard *shard, kolo_reduction *reduction)
{
    if (shard->outputs) keep_outputs(microbatch, shard);
    kolo_node node = microbatch->node;
    microbatch->node.gradient = NULL; /* the reduction's */
    return reduction ? kolo_reduction_insert(reduction, node) : KOLO_OK;
}

void kolo_microbatch_drop(kolo_microbatch *microbatch, kolo_reduction *reduction)
{
    if (reduction) kolo_reduction_return(reduction, microbatch->node.gradient);
    microbatch->node.gradient = NULL;
}

void kolo_gate_enter(sem_t *gate)
{
    while (gate && sem_wait(gate) != 0 && errno == EINTR) continue;
}

void kolo_gate_leave(sem_t *gate)
{
    if (gate) sem_post(gate);
}
