/* Working through leaves: see engine.h. */
#include "core/engine.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/runtime.h"
#include "core/tokens.h"
#include "data/data.h"

/* ---------------------------------------------------------------- open and close */

static kolo_status open_frames(kolo_engine *engine, int threads)
{
    engine->frames = calloc((size_t)threads, sizeof *engine->frames);
    if (!engine->frames) return kolo_fail_memory((size_t)threads * sizeof *engine->frames, "an engine");
    for (int i = 0; i < threads; i++) KOLO_TRY(kolo_frame_open(engine->program, &engine->frames[i]));
    return KOLO_OK;
}

kolo_status kolo_engine_open(const kolo_model *model, kolo_purpose purpose, int leaf, int threads, sem_t *gate,
                             kolo_engine **engine)
{
    kolo_engine *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an engine");
    made->gate = gate;
    kolo_status status;
    KOLO_GO(fail, kolo_program_open(model, purpose, leaf, &made->program));
    KOLO_GO(fail, kolo_team_open(threads, &made->team));
    KOLO_GO(fail, open_frames(made, threads));
    size_t bytes = made->program->weights_bytes + 1;
    made->weights.packed = model->backend->allocate(bytes);
    if (!made->weights.packed) KOLO_GO(fail, kolo_fail_memory(bytes, "a replica's weights"));
    *engine = made;
    return KOLO_OK;
fail:
    kolo_engine_close(&made);
    return status;
}

void kolo_engine_close(kolo_engine **engine)
{
    kolo_engine *closed = *engine;
    *engine = NULL;
    if (!closed) return;
    for (int i = 0; closed->frames && i < kolo_team_size(closed->team); i++) kolo_frame_close(&closed->frames[i]);
    free(closed->frames);
    kolo_team_close(&closed->team);
    if (closed->weights.packed) closed->program->backend->deallocate(closed->weights.packed);
    kolo_program_close(&closed->program);
    free(closed);
}

kolo_status kolo_engine_fold(const kolo_engine *engine, kolo_fold **fold)
{
    const kolo_backend *backend = engine->program->backend;
    int64_t count = (int64_t)(engine->program->gradient_bytes / sizeof(float));
    return kolo_fold_open(count, backend->allocate, backend->deallocate, kolo_program_add, engine->program, fold);
}

/* ---------------------------------------------------------------- weights */

typedef struct pack_job {
    kolo_engine *engine;
    const float *weights;
    atomic_int next;
} pack_job;

static kolo_status pack_some(void *argument, int member)
{
    (void)member;
    pack_job *job = argument;
    const kolo_program *program = job->engine->program;
    kolo_status status = KOLO_OK;
    int entered = program->backend->enter_thread();
    for (int value; status == KOLO_OK && (value = atomic_fetch_add(&job->next, 1)) < program->plan.value_count;)
        status = kolo_program_pack(program, value, job->weights, job->engine->weights.packed);
    program->backend->leave_thread(entered);
    return status;
}

kolo_status kolo_engine_pack(kolo_engine *engine, const float *weights)
{
    pack_job job = {.engine = engine, .weights = weights};
    engine->weights.canonical = weights;
    return kolo_team_run(engine->team, pack_some, &job);
}

/* ---------------------------------------------------------------- leaves */

typedef struct leaf_job {
    kolo_engine *engine;
    const kolo_share *share;
    kolo_fold *fold;
    atomic_llong next;
} leaf_job;

/* Samples of the leaf, from the data set into the frame; zeros behind them where the leaf is not full. */
static int gather(const kolo_frame *frame, const kolo_share *share, int64_t leaf)
{
    const kolo_batch *batch = share->batch;
    int64_t first = leaf * batch->leaf;
    int64_t left = batch->samples - first;
    int count = left < batch->leaf ? (int)left : batch->leaf;
    const int32_t *order = batch->order ? batch->order + first : NULL;
    float *input = kolo_frame_input(frame);
    const kolo_plan *plan = &frame->program->plan;
    kolo_gathered to = {input, frame->labels, frame->targets, frame->weights,
                        kolo_shape_count(plan->values[plan->output].shape)};
    kolo_data_gather(share->data, order, batch->first + first, count, &to);
    size_t elements = (size_t)kolo_shape_count(share->data->shape);
    memset(input + (size_t)count * elements, 0, (size_t)(batch->leaf - count) * elements * sizeof *input);
    return count;
}

static void keep_outputs(const kolo_frame *frame, const kolo_share *share, int64_t leaf, int count)
{
    const kolo_plan *plan = &frame->program->plan;
    size_t elements = (size_t)kolo_shape_count(plan->values[plan->output].shape);
    float *target = share->outputs + (size_t)leaf * (size_t)share->batch->leaf * elements;
    memcpy(target, kolo_frame_output(frame), (size_t)count * elements * sizeof *target);
}

static kolo_status compute_leaf(leaf_job *job, kolo_frame *frame, int64_t leaf)
{
    const kolo_share *share = job->share;
    kolo_node node = {.index = leaf, .totals = {.used = frame->program->plan.metric_sums}};
    int count = gather(frame, share, leaf);
    KOLO_TRY(kolo_tokens_check(&frame->program->plan, share->batch, leaf * share->batch->leaf, count,
                               kolo_frame_input(frame)));
    if (job->fold) KOLO_TRY(kolo_fold_borrow(job->fold, &node.gradient));
    kolo_call call = {.samples = count,
                      .first_sample = leaf * share->batch->leaf,
                      .seed = share->seed,
                      .step = share->batch->step,
                      .totals = &node.totals};
    kolo_status status = kolo_program_run(frame, &job->engine->weights, node.gradient, call);
    if (status != KOLO_OK) {
        if (job->fold) kolo_fold_return(job->fold, node.gradient);
        return status;
    }
    if (share->outputs) keep_outputs(frame, share, leaf, count);
    return job->fold ? kolo_fold_insert(job->fold, node) : KOLO_OK;
}

static void pass_gate(sem_t *gate)
{
    while (gate && sem_wait(gate) != 0 && errno == EINTR) continue;
}

static kolo_status compute_leaves(leaf_job *job, kolo_frame *frame)
{
    sem_t *gate = job->engine->gate;
    for (int64_t leaf; (leaf = atomic_fetch_add(&job->next, 1)) < job->share->end_leaf;) {
        if (job->share->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
        pass_gate(gate);
        kolo_status status = compute_leaf(job, frame, leaf);
        if (gate) sem_post(gate);
        if (status != KOLO_OK) atomic_store(&job->next, job->share->end_leaf); /* the other threads end, too */
        KOLO_TRY(status);
    }
    return KOLO_OK;
}

static kolo_status compute_some(void *argument, int member)
{
    leaf_job *job = argument;
    const kolo_backend *backend = job->engine->program->backend;
    int entered = backend->enter_thread();
    kolo_status status = compute_leaves(job, job->engine->frames[member]);
    backend->leave_thread(entered);
    return status;
}

kolo_status kolo_engine_run(kolo_engine *engine, const kolo_share *share, kolo_fold *fold)
{
    leaf_job job = {.engine = engine, .share = share, .fold = fold};
    atomic_store(&job.next, share->first_leaf);
    return kolo_team_run(engine->team, compute_some, &job);
}
