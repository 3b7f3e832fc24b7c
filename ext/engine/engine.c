/* Working through leaves: see engine.h. */
#include "engine/engine.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "engine/leaf.h"
#include "engine/pipeline.h"
#include "engine/queued.h"
#include "core/runtime.h"

/* ---------------------------------------------------------------- open and close */

static kolo_status open_memory(kolo_engine *engine)
{
    const kolo_program *program = engine->program;
    engine->weights.packed = kolo_program_allocate(program, program->weights_bytes + 1);
    engine->met = kolo_program_allocate(program, program->met_bytes + 1);
    return engine->weights.packed && engine->met ? KOLO_OK
                                                 : kolo_fail_memory(program->weights_bytes + 1, "a replica's weights");
}

static kolo_status open_benches(kolo_engine *engine, int threads)
{
    engine->benches = calloc((size_t)threads, sizeof *engine->benches);
    if (!engine->benches) return kolo_fail_memory((size_t)threads * sizeof *engine->benches, "an engine");
    for (int i = 0; i < threads && !engine->queued; i++)
        KOLO_TRY(kolo_bench_open(engine->program, &engine->benches[i]));
    return KOLO_OK;
}

static kolo_status open_frames(kolo_engine *engine, int threads)
{
    if (engine->program->segment_count > 1) return kolo_pipeline_open(engine, &engine->pipeline);
    engine->frames = calloc((size_t)threads, sizeof *engine->frames);
    if (!engine->frames) return kolo_fail_memory((size_t)threads * sizeof *engine->frames, "an engine");
    for (int i = 0; i < threads; i++) KOLO_TRY(kolo_frame_open(engine->program, &engine->frames[i]));
    return KOLO_OK;
}

static kolo_status open_on_host(kolo_engine *engine, const kolo_model *model, kolo_purpose purpose, int leaf,
                                int threads)
{
    KOLO_TRY(kolo_program_open(model, purpose, leaf, &engine->program));
    if (threads < engine->program->devices) threads = engine->program->devices;
    KOLO_TRY(kolo_team_open(threads, &engine->team));
    KOLO_TRY(open_memory(engine));
    KOLO_TRY(open_benches(engine, threads));
    return open_frames(engine, threads);
}

/* One thread speaks to the queue. */
static kolo_status open_queued(kolo_engine *engine, const kolo_model *model, kolo_purpose purpose, int leaf,
                               int replica)
{
    KOLO_TRY(kolo_queued_open(model, purpose, leaf, replica, &engine->queued));
    engine->program = engine->queued->program;
    KOLO_TRY(kolo_team_open(1, &engine->team));
    return open_benches(engine, 1);
}

kolo_status kolo_engine_open(const kolo_model *model, kolo_purpose purpose, int leaf, kolo_engine_place place,
                             kolo_engine **engine)
{
    kolo_engine *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an engine");
    made->gate = place.gate;
    kolo_status status = model->backend->accelerator ? open_queued(made, model, purpose, leaf, place.replica)
                                                     : open_on_host(made, model, purpose, leaf, place.threads);
    if (status == KOLO_OK) *engine = made;
    else kolo_engine_close(&made);
    return status;
}

/* What kolo_queued_close() does not do. */
static void close_queued(kolo_engine *engine)
{
    if (engine->benches) free(engine->benches[0].seconds);
    free(engine->benches);
    kolo_team_close(&engine->team);
    kolo_queued_close(&engine->queued);
    free(engine);
}

void kolo_engine_close(kolo_engine **engine)
{
    kolo_engine *closed = *engine;
    *engine = NULL;
    if (!closed) return;
    if (closed->queued) {
        close_queued(closed);
        return;
    }
    kolo_pipeline_close(&closed->pipeline);
    for (int i = 0; closed->frames && i < kolo_team_size(closed->team); i++) kolo_frame_close(&closed->frames[i]);
    for (int i = 0; closed->benches && i < kolo_team_size(closed->team); i++)
        kolo_bench_close(closed->program, &closed->benches[i]);
    free(closed->frames);
    free(closed->benches);
    kolo_team_close(&closed->team);
    if (closed->weights.packed && !closed->borrows) kolo_program_deallocate(closed->program, closed->weights.packed);
    if (closed->met) kolo_program_deallocate(closed->program, closed->met);
    kolo_program_close(&closed->program);
    free(closed);
}

kolo_status kolo_engine_time(kolo_engine *engine)
{
    size_t count = (size_t)engine->program->plan.op_count;
    for (int i = 0; i < kolo_team_size(engine->team); i++) {
        engine->benches[i].seconds = calloc(count, sizeof(double));
        if (!engine->benches[i].seconds) return kolo_fail_memory(count * sizeof(double), "a profile");
    }
    return KOLO_OK;
}

kolo_status kolo_engine_fold(const kolo_engine *engine, kolo_fold **fold)
{
    int64_t count = (int64_t)(engine->program->gradient_bytes / sizeof(float));
    return kolo_fold_open(count, kolo_program_fold_memory(engine->program), fold);
}

/* ---------------------------------------------------------------- weights */

typedef struct pack_job {
    kolo_engine *engine;
    const float *weights;
    atomic_int *next;
} pack_job;

static kolo_status pack_some(void *argument, int member)
{
    (void)member;
    pack_job *job = argument;
    const kolo_program *program = job->engine->program;
    kolo_status status = KOLO_OK;
    int entered = program->backend->enter_thread();
    for (int value; status == KOLO_OK && (value = atomic_fetch_add(job->next, 1)) < program->plan.value_count;)
        status = kolo_program_pack(program, value, job->weights, job->engine->weights.packed);
    program->backend->leave_thread(entered);
    return status;
}

kolo_status kolo_engine_pack_together(kolo_engine *engine, const float *weights, atomic_int *next)
{
    pack_job job = {engine, weights, next};
    engine->weights.canonical = weights;
    return kolo_team_run(engine->team, pack_some, &job);
}

kolo_status kolo_engine_pack(kolo_engine *engine, const float *weights)
{
    atomic_int next = 0;
    if (engine->queued) return kolo_queued_store(engine->queued, weights);
    return kolo_engine_pack_together(engine, weights, &next);
}

void kolo_engine_borrow_weights(kolo_engine *engine, const kolo_engine *from)
{
    if (!engine->borrows) kolo_program_deallocate(engine->program, engine->weights.packed);
    engine->weights.packed = from->weights.packed;
    engine->borrows = true;
}

/* ---------------------------------------------------------------- leaves */

typedef struct leaf_job {
    kolo_engine *engine;
    const kolo_share *share;
    kolo_fold *fold;
    atomic_llong next;
} leaf_job;

static kolo_status compute_leaf(leaf_job *job, int member, int64_t number)
{
    kolo_engine *engine = job->engine;
    const kolo_bench *bench = &engine->benches[member];
    kolo_leaf leaf = {.frame = engine->frames[member]};
    kolo_status status = kolo_leaf_begin(&leaf, engine, job->share, job->fold, number, bench);
    if (status == KOLO_OK) status = kolo_leaf_run(&leaf, engine, job->share, 0, bench);
    if (status == KOLO_OK) status = kolo_leaf_end(&leaf, job->share, job->fold);
    kolo_leaf_drop(&leaf, job->fold);
    return status;
}

static kolo_status compute_leaves(leaf_job *job, int member)
{
    sem_t *gate = job->engine->gate;
    for (int64_t leaf; (leaf = atomic_fetch_add(&job->next, 1)) < job->share->end_leaf;) {
        if (job->share->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
        kolo_gate_enter(gate);
        kolo_status status = compute_leaf(job, member, leaf);
        kolo_gate_leave(gate);
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
    kolo_status status = compute_leaves(job, member);
    backend->leave_thread(entered);
    return status;
}

/* Who asks in this way may have changed the data since. */
kolo_status kolo_engine_bring(kolo_engine *engine, const kolo_share *share)
{
    if (!engine->queued) return KOLO_OK;
    int64_t samples = share->batch->samples, leaves = share->end_leaf - share->first_leaf;
    KOLO_TRY(kolo_queued_reserve(engine->queued, engine->program->meets ? leaves : 1));
    return kolo_queued_attach(engine->queued, share->data, share->batch->order ? samples : 0, samples);
}

kolo_status kolo_engine_compute(kolo_engine *engine, const kolo_share *share, kolo_fold *fold)
{
    if (engine->queued) return kolo_queued_run(engine->queued, share, fold, engine->benches[0].seconds);
    if (engine->pipeline) return kolo_pipeline_run(engine->pipeline, share, fold);
    leaf_job job = {.engine = engine, .share = share, .fold = fold};
    atomic_store(&job.next, share->first_leaf);
    return kolo_team_run(engine->team, compute_some, &job);
}

kolo_status kolo_engine_run(kolo_engine *engine, const kolo_share *share, kolo_fold *fold)
{
    KOLO_TRY(kolo_engine_bring(engine, share));
    return kolo_engine_compute(engine, share, fold);
}
