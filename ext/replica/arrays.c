/* A replica's arrays, on the host and in its stream's memory: see replica.h. */
#include <stdlib.h>
#include <string.h>

#include "comm/shareable.h"
#include "replica/rank_sum.h"
#include "replica/trainer.h"

static const kolo_compile_args *settings_of(const kolo_replica *replica)
{
    return &replica->trainer->model->settings;
}

static size_t weight_bytes(const kolo_replica *replica)
{
    return (size_t)replica->trainer->model->weight_count * sizeof(float);
}

static size_t number_bytes(const kolo_replica *replica)
{
    return (size_t)replica->trainer->model->parameter_count * sizeof(float);
}

kolo_replica *kolo_replica_owner(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    return trainer->weight_placement == KOLO_WEIGHTS_COPIED ? replica : &trainer->replicas[0];
}

/* ---------------------------------------------------------------- arrays of the host */

static kolo_status open_slot(const kolo_optimizer *optimizer, int slot, int64_t count, float **values)
{
    KOLO_TRY(kolo_allocate_zeros(count, "the optimizer's state", values));
    float start = optimizer->kind->slot_start ? optimizer->kind->slot_start(optimizer, slot) : 0;
    for (int64_t i = 0; start != 0 && i < count; i++) (*values)[i] = start;
    return KOLO_OK;
}

static kolo_status open_state(kolo_replica *replica, const kolo_optimizer *optimizer, int64_t count)
{
    for (int i = 0; i < kolo_optimizer_slots(optimizer); i++)
        KOLO_TRY(open_slot(optimizer, i, count, &replica->slots[i]));
    if (!optimizer->kind->number) return KOLO_OK;
    return kolo_allocate_zeros(replica->trainer->model->parameter_count, "the optimizer's state", &replica->numbers);
}

static kolo_status open_spans(kolo_replica *replica)
{
    const kolo_model *model = replica->trainer->model;
    size_t bytes = (size_t)model->parameter_count * sizeof(kolo_span);
    kolo_span *spans = replica->spans = malloc(bytes + 1);
    if (!spans) return kolo_fail_memory(bytes, "a replica");
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        spans[p] = (kolo_span){.offset = parameter->offset,
                               .count = kolo_shape_count(parameter->shape),
                               .l2 = (float)(2 * parameter->l2),
                               .penalty = parameter->l2,
                               .momentum = parameter->momentum,
                               .vector = parameter->shape.rank <= 1};
    }
    return KOLO_OK;
}

/* The first replica of a rank sums with the other ranks, which read its gradient in place if they can. Only the host's
 * memory can be shared; a deterministic sum is made of messages. */
static kolo_status open_gradient(kolo_replica *replica, int64_t count)
{
    const kolo_model *model = replica->trainer->model;
    bool on_host = model->backend->streams->steps_ahead == 0 && !model->settings.deterministic;
    if (replica->index == 0 && on_host && kolo_model_ranks(model)->reads_in_place)
        replica->gradient = kolo_shareable_allocate((size_t)count * sizeof *replica->gradient);
    return replica->gradient ? KOLO_OK : kolo_allocate_zeros(count, "a replica's gradient", &replica->gradient);
}

kolo_status kolo_replica_open(kolo_trainer *trainer, int index)
{
    kolo_replica *replica = &trainer->replicas[index];
    int64_t count = trainer->model->weight_count;
    replica->trainer = trainer;
    replica->index = index;
    replica->counters = kolo_counters_start(trainer->model);
    if (index >= trainer->running) {
        replica->weights = trainer->replicas[0].weights;
        return KOLO_OK;
    }
    KOLO_TRY(open_spans(replica));
    KOLO_TRY(open_gradient(replica, count));
    if (settings_of(replica)->optimizer.common.accumulate_steps > 1)
        KOLO_TRY(kolo_allocate_zeros(count, "gradients of several batches", &replica->accumulated));
    const kolo_replica *owner = kolo_replica_owner(replica);
    if (owner == replica) {
        KOLO_TRY(kolo_allocate_zeros(count, "a replica's weights", &replica->weights));
        return open_state(replica, &settings_of(replica)->optimizer, count);
    }
    replica->weights = owner->weights;
    replica->numbers = owner->numbers;
    memcpy(replica->slots, owner->slots, sizeof replica->slots);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- arrays of the stream */

static kolo_status import(kolo_replica *replica, const float *host, size_t bytes, const char *what, float **arrays)
{
    if (!host || *arrays) return KOLO_OK;
    return kolo_replica_streams(replica)->import(replica->stream, host, bytes, what, (void **)arrays);
}

static kolo_status open_arrays(kolo_replica *replica)
{
    kolo_replica_arrays *arrays = &replica->arrays;
    size_t bytes = weight_bytes(replica);
    KOLO_TRY(import(replica, replica->weights, bytes, "a replica's weights", &arrays->weights));
    KOLO_TRY(import(replica, replica->gradient, bytes, "a replica's gradient", &arrays->gradient));
    KOLO_TRY(import(replica, replica->accumulated, bytes, "gradients of several batches", &arrays->accumulated));
    for (int i = 0; i < KOLO_OPTIMIZER_SLOTS && !replica->by_host; i++)
        KOLO_TRY(import(replica, replica->slots[i], bytes, "the optimizer's state", &arrays->slots[i]));
    return import(replica, replica->by_host ? NULL : replica->numbers, number_bytes(replica), "the optimizer's state",
                  &arrays->numbers);
}

static void discard_arrays(kolo_replica *replica)
{
    const kolo_stream_kind *streams = replica->trainer->model->backend->streams;
    kolo_replica_arrays *arrays = &replica->arrays;
    streams->discard(replica->stream, replica->weights, arrays->weights);
    streams->discard(replica->stream, replica->gradient, arrays->gradient);
    streams->discard(replica->stream, replica->accumulated, arrays->accumulated);
    for (int i = 0; i < KOLO_OPTIMIZER_SLOTS; i++)
        streams->discard(replica->stream, replica->slots[i], arrays->slots[i]);
    streams->discard(replica->stream, replica->numbers, arrays->numbers);
    streams->release(replica->stream, replica->scaling);
}

/* The step parameters and the packed weights belong to the engine. */
static kolo_update_job job_of(const kolo_replica *replica)
{
    const kolo_model *model = replica->trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    const kolo_replica_arrays *arrays = &replica->arrays;
    return (kolo_update_job){.optimizer = optimizer,
                             .spans = replica->spans,
                             .span_count = model->parameter_count,
                             .count = model->weight_count,
                             .weights = arrays->weights,
                             .gradient = arrays->gradient,
                             .slots = {arrays->slots[0], arrays->slots[1], arrays->slots[2]},
                             .numbers = arrays->numbers,
                             .step_parameters = replica->engine->step_parameters,
                             .clip_value = optimizer->common.clip_value,
                             .clip_norm = optimizer->common.clip_norm,
                             .global_clip_norm = optimizer->common.global_clip_norm,
                             .decay = optimizer->kind->decays ? 0 : optimizer->common.weight_decay,
                             .scaling = replica->scaling,
                             .plan = &replica->engine->program->plan,
                             .packed = replica->engine->contexts[0].weights.packed,
                             .parts = 1};
}

static kolo_status wait_for_sharers(void *argument)
{
    return kolo_replica_wait_for_sharers(argument);
}

/* Where replicas share one set of weights, the job updates the owner's arrays. Either one replica updates all of them,
 * or each replica updates a part. */
static void share_job(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    const kolo_replica *owner = kolo_replica_owner(replica);
    replica->job.gradient = owner->arrays.gradient;
    replica->job.prepared = owner->job.prepared;
    if (trainer->weight_placement != KOLO_WEIGHTS_SHARED || trainer->running == 1) return;
    replica->job.part = replica->index;
    replica->job.parts = trainer->running;
    replica->job.barrier = wait_for_sharers;
    replica->job.barrier_argument = replica;
}

static kolo_status open_job(kolo_replica *replica)
{
    const kolo_backend *backend = replica->trainer->model->backend;
    bool penalised = false;
    replica->job = replica->host_job = job_of(replica);
    for (int p = 0; p < replica->trainer->model->parameter_count; p++)
        penalised = penalised || replica->spans[p].penalty > 0;
    if (penalised) replica->engine->penalised = &replica->job;
    if (replica->by_host) KOLO_TRY(kolo_host_expect_update(NULL, &replica->host_job));
    if (kolo_replica_owner(replica) == replica && (penalised || !replica->by_host))
        KOLO_TRY(backend->updates->expect(replica->stream, &replica->job));
    share_job(replica);
    return KOLO_OK;
}

static void close_job(kolo_replica *replica)
{
    kolo_host_forget_update(NULL, &replica->host_job);
    if (kolo_replica_owner(replica) == replica && replica->stream)
        replica->trainer->model->backend->updates->forget(replica->stream, &replica->job);
}

/* ---------------------------------------------------------------- engines */

kolo_status kolo_replica_open_engine(kolo_replica *replica, int microbatch, int threads, sem_t *gate)
{
    kolo_trainer *trainer = replica->trainer;
    const kolo_model *model = trainer->model;
    bool shares = trainer->weight_placement == KOLO_WEIGHTS_SHARED && replica->index > 0;
    const kolo_engine_place place = {.threads = threads,
                                     .gate = gate,
                                     .replica = replica->index,
                                     .stream = replica->stream,
                                     .packed = shares ? trainer->replicas[0].engine : NULL};
    KOLO_TRY(kolo_engine_open(model, KOLO_FOR_TRAINING, microbatch, place, &replica->engine));
    replica->stream = replica->engine->stream;
    replica->engine->borrows_stream = true;
    replica->by_host =
        kolo_model_strategy(model)->updates_center || !model->backend->updates->has_rule(&model->settings.optimizer);
    KOLO_TRY(kolo_replica_open_scaling(replica));
    replica->engine->scaling = replica->scaling;
    KOLO_TRY(open_arrays(replica));
    KOLO_TRY(kolo_replica_find_tables(replica));
    kolo_engine_set_weights(replica->engine, replica->arrays.weights);
    return open_job(replica);
}

void kolo_replica_detach_engine(kolo_replica *replica)
{
    if (!replica->trainer) return; /* it was never opened */
    if (replica->stream && replica->engine) kolo_replica_streams(replica)->synchronize(replica->stream);
    close_job(replica); /* it is of the engine's plan */
    kolo_replica_leave(replica);
    if (replica->tree != replica->trainer->tree) kolo_reduction_close(&replica->tree);
    replica->tree = NULL;
}

void kolo_replica_close(kolo_replica *replica)
{
    if (!replica->trainer) return; /* it was never opened */
    if (replica->stream) discard_arrays(replica);
    if (replica->stream) replica->trainer->model->backend->streams->close(&replica->stream);
    kolo_feed_close(&replica->feed);
    free(replica->spans);
    free(replica->tables);
    if (!kolo_shareable_deallocate(replica->gradient)) kolo_host_deallocate(replica->gradient);
    kolo_host_deallocate(replica->accumulated);
    if (kolo_replica_owner(replica) != replica) return;
    kolo_host_deallocate(replica->weights);
    for (int i = 0; i < KOLO_OPTIMIZER_SLOTS; i++) kolo_host_deallocate(replica->slots[i]);
    kolo_host_deallocate(replica->numbers);
}

/* ---------------------------------------------------------------- copies between host and stream */

static kolo_status move(kolo_replica *replica, float *host, float *arrays, size_t bytes, bool store)
{
    if (!host || !arrays) return KOLO_OK;
    return kolo_replica_streams(replica)->copy(replica->stream, store ? arrays : host, store ? host : arrays, bytes);
}

static kolo_status move_state(kolo_replica *replica, bool store)
{
    kolo_replica_arrays *arrays = &replica->arrays;
    size_t bytes = weight_bytes(replica);
    for (int i = 0; i < KOLO_OPTIMIZER_SLOTS; i++)
        KOLO_TRY(move(replica, replica->slots[i], arrays->slots[i], bytes, store));
    KOLO_TRY(move(replica, replica->accumulated, arrays->accumulated, bytes, store));
    return move(replica, replica->numbers, arrays->numbers, number_bytes(replica), store);
}

/* Each of the replicas that share the weights packs a part of them. */
kolo_status kolo_replica_pack_weights(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    bool shares = trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    return kolo_engine_pack(replica->engine, shares ? replica->index : 0, shares ? trainer->running : 1);
}

kolo_status kolo_replica_store(kolo_replica *replica, bool state)
{
    if (!replica->engine) return KOLO_OK; /* kolo_replica_open_engine() will import the host's arrays */
    KOLO_TRY(move(replica, replica->weights, replica->arrays.weights, weight_bytes(replica), true));
    KOLO_TRY(kolo_replica_pack_weights(replica));
    if (!state) return KOLO_OK;
    replica->scaling_is_current = false;
    return move_state(replica, true);
}

kolo_status kolo_replica_fetch(kolo_replica *replica, bool state)
{
    if (!replica->engine) return KOLO_OK; /* the host's arrays are up to date */
    if (state) KOLO_TRY(move_state(replica, false));
    if (!replica->by_host) {
        KOLO_TRY(move(replica, replica->weights, replica->arrays.weights, weight_bytes(replica), false));
        if (state) KOLO_TRY(kolo_replica_synchronize_scaling(replica));
    }
    return kolo_replica_streams(replica)->synchronize(replica->stream);
}

kolo_status kolo_replica_is_finite(kolo_replica *replica, bool *finite)
{
    return kolo_replica_streams(replica)->are_finite(replica->stream, replica->arrays.weights,
                                                     replica->trainer->model->weight_count, finite);
}

kolo_status kolo_replica_store_gradient(kolo_replica *replica)
{
    KOLO_TRY(move(replica, replica->gradient, replica->arrays.gradient, weight_bytes(replica), true));
    return kolo_replica_streams(replica)->synchronize(replica->stream);
}

kolo_status kolo_replica_fetch_gradient(kolo_replica *replica)
{
    KOLO_TRY(move(replica, replica->gradient, replica->arrays.gradient, weight_bytes(replica), false));
    return kolo_replica_streams(replica)->synchronize(replica->stream);
}

/* ---------------------------------------------------------------- functions of strategy.h */

/* A failed fetch stays the stream's failure, so the next step reports it. */
float *kolo_replica_weights(kolo_replica *replica)
{
    kolo_replica_fetch(replica, false);
    if (!replica->tried) kolo_replica_lend(replica);
    return replica->weights;
}

int64_t kolo_replica_count(const kolo_replica *replica)
{
    return replica->trainer->model->weight_count;
}

kolo_status kolo_replica_pack(kolo_replica *replica)
{
    kolo_replica_take_back(replica);
    return kolo_replica_store(replica, false);
}
