/* Working through microbatches: see engine.h. */
#include "engine/engine.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "engine/microbatch.h"
#include "engine/pipeline.h"
#include "engine/queued.h"
#include "runtime/runtime.h"
#include "core/stack.h"

/* ---------------------------------------------------------------- open and close */

static kolo_status open_memory(kolo_engine *engine)
{
    const kolo_program *program = engine->program;
    engine->weights.packed = kolo_program_allocate(program, program->weights_bytes + 1);
    engine->reduced = kolo_program_allocate(program, program->reduced_bytes + 1);
    return engine->weights.packed && engine->reduced
               ? KOLO_OK
               : kolo_fail_memory(program->weights_bytes + 1, "a replica's weights");
}

static kolo_status open_workspaces(kolo_engine *engine, int threads)
{
    engine->workspaces = calloc((size_t)threads, sizeof *engine->workspaces);
    if (!engine->workspaces) return kolo_fail_memory((size_t)threads * sizeof *engine->workspaces, "an engine");
    for (int i = 0; i < threads && !engine->queued; i++)
        KOLO_TRY(kolo_workspace_open(engine->program, &engine->workspaces[i]));
    return KOLO_OK;
}

static kolo_status open_frames(kolo_engine *engine, int threads)
{
    if (engine->program->segment_count > 1) return kolo_pipeline_open(engine, &engine->pipeline);
    engine->activation_sets = calloc((size_t)threads, sizeof *engine->activation_sets);
    if (!engine->activation_sets)
        return kolo_fail_memory((size_t)threads * sizeof *engine->activation_sets, "an engine");
    for (int i = 0; i < threads; i++) KOLO_TRY(kolo_activations_open(engine->program, &engine->activation_sets[i]));
    return KOLO_OK;
}

static kolo_status open_on_host(kolo_engine *engine, const kolo_model *model, kolo_purpose purpose, int microbatch,
                                int threads)
{
    KOLO_TRY(kolo_program_open(model, purpose, microbatch, &engine->program));
    if (threads < engine->program->devices) threads = engine->program->devices;
    KOLO_TRY(kolo_team_open(threads, &engine->team));
    KOLO_TRY(open_memory(engine));
    KOLO_TRY(open_workspaces(engine, threads));
    return open_frames(engine, threads);
}

/* One thread speaks to the queue. */
static kolo_status open_queued(kolo_engine *engine, const kolo_model *model, kolo_purpose purpose, int microbatch,
                               int replica)
{
    KOLO_TRY(kolo_queued_open(model, purpose, microbatch, replica, &engine->queued));
    engine->program = engine->queued->program;
    KOLO_TRY(kolo_team_open(1, &engine->team));
    return open_workspaces(engine, 1);
}

kolo_status kolo_engine_open(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_engine_place place,
                             kolo_engine **engine)
{
    KOLO_TRY(kolo_stack_grow());
    kolo_engine *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an engine");
    made->gate = place.gate;
    kolo_status status = model->backend->accelerator ? open_queued(made, model, purpose, microbatch, place.replica)
                                                     : open_on_host(made, model, purpose, microbatch, place.threads);
    if (status == KOLO_OK) *engine = made;
    else kolo_engine_close(&made);
    return status;
}

/* What kolo_queued_close() does not do. */
static void close_queued(kolo_engine *engine)
{
    if (engine->workspaces) free(engine->workspaces[0].seconds);
    free(engine->workspaces);
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
    for (int i = 0; closed->activation_sets && i < kolo_team_size(closed->team); i++)
        kolo_activations_close(&closed->activation_sets[i]);
    for (int i = 0; closed->workspaces && i < kolo_team_size(closed->team); i++)
        kolo_workspace_close(closed->program, &closed->workspaces[i]);
    free(closed->activation_sets);
    free(closed->workspaces);
    kolo_team_close(&closed->team);
    if (closed->weights.packed && !closed->borrows) kolo_program_deallocate(closed->program, closed->weights.packed);
    if (closed->reduced) kolo_program_deallocate(closed->program, closed->reduced);
    kolo_program_close(&closed->program);
    free(closed);
}

kolo_status kolo_engine_time(kolo_engine *engine)
{
    size_t count = (size_t)engine->program->plan.op_count;
    for (int i = 0; i < kolo_team_size(engine->team); i++) {
        engine->workspaces[i].seconds = calloc(count, sizeof(double));
        if (!engine->workspaces[i].seconds) return kolo_fail_memory(count * sizeof(double), "a profile");
    }
    return KOLO_OK;
}

kolo_status kolo_engine_reduction(const kolo_engine *engine, kolo_reduction **reduction)
{
    int64_t count = (int64_t)(engine->program->gradient_bytes / sizeof(float));
    return kolo_reduction_open(count, kolo_program_reduction_memory(engine->program), reduction);
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

/* ---------------------------------------------------------------- microbatches */

typedef struct microbatch_job {
    kolo_engine *engine;
    const kolo_shard *shard;
    kolo_reduction *reduction;
    atomic_llong next;
} microbatch_job;

static kolo_status compute_microbatch(microbatch_job *job, int member, int64_t number)
{
    kolo_engine *engine = job->engine;
    const kolo_workspace *workspace = &engine->workspaces[member];
    kolo_microbatch microbatch = {.activations = engine->activation_sets[member]};
    kolo_status status = kolo_microbatch_begin(&microbatch, engine, job->shard, job->reduction, number, workspace);
    if (status == KOLO_OK) status = kolo_microbatch_run(&microbatch, engine, job->shard, 0, workspace);
    if (status == KOLO_OK) status = kolo_microbatch_end(&microbatch, job->shard, job->reduction);
    kolo_microbatch_drop(&microbatch, job->reduction);
    return status;
}

static kolo_status compute_microbatches(microbatch_job *job, int member)
{
    sem_t *gate = job->engine->gate;
    for (int64_t microbatch; (microbatch = atomic_fetch_add(&job->next, 1)) < job->shard->end_microbatch;) {
        if (job->shard->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
        kolo_gate_enter(gate);
        kolo_status status = compute_microbatch(job, member, microbatch);
        kolo_gate_leave(gate);
        if (status != KOLO_OK) atomic_store(&job->next, job->shard->end_microbatch); /* the other threads end, too */
        KOLO_TRY(status);
    }
    return KOLO_OK;
}

static kolo_status compute_some(void *argument, int member)
{
    microbatch_job *job = argument;
    const kolo_backend *backend = job->engine->program->backend;
    int entered = backend->enter_thread();
    kolo_status status = compute_microbatches(job, member);
    backend->leave_thread(entered);
    return status;
}

/* Who asks in this way may have changed the data since. */
kolo_status kolo_engine_bring(kolo_engine *engine, const kolo_shard *shard)
{
    if (!engine->queued) return KOLO_OK;
    int64_t samples = shard->batch->samples, microbatches = shard->end_microbatch - shard->first_microbatch;
    KOLO_TRY(kolo_queued_reserve(engine->queued, engine->program->reduces ? microbatches : 1));
    return kolo_queued_attach(engine->queued, shard->data, shard->batch->order ? samples : 0, samples);
}

kolo_status kolo_engine_compute(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction)
{
    if (engine->queued) return kolo_queued_run(engine->queued, shard, reduction, engine->workspaces[0].seconds);
    if (engine->pipeline) return kolo_pipeline_run(engine->pipeline, shard, reduction);
    microbatch_job job = {.engine = engine, .shard = shard, .reduction = reduction};
    atomic_store(&job.next, shard->first_microbatch);
    return kolo_team_run(engine->team, compute_some, &job);
}

kolo_status kolo_engine_run(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction)
{
    KOLO_TRY(kolo_engine_bring(engine, shard));
    return kolo_engine_compute(engine, shard, reduction);
}
