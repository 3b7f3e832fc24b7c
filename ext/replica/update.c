/* A replica's update: applies the optimizer's rule to the mean gradient. See strategy/strategy.h; backend/update.h
 * declares the arithmetic. */
#include "replica/trainer.h"
#include "core/clock.h"

static const kolo_update_kind *updates_of(const kolo_replica *replica)
{
    return replica->trainer->model->backend->updates;
}

/* ---------------------------------------------------------------- one update */

/* Under KOLO_WEIGHTS_CENTRAL one replica updates the weights of all. */
static bool updates_weights(const kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    return trainer->weight_placement != KOLO_WEIGHTS_CENTRAL || replica->index == trainer->updater;
}

/* Central weights are updated with the threads of the parameter device. */
static kolo_status enqueue_job(kolo_replica *replica, const kolo_update_job *job)
{
    const kolo_trainer *trainer = replica->trainer;
    bool central = trainer->weight_placement == KOLO_WEIGHTS_CENTRAL;
    kolo_stream *stream = central && trainer->parameter_stream ? trainer->parameter_stream : replica->stream;
    return updates_weights(replica) ? updates_of(replica)->update(stream, job) : KOLO_OK;
}

/* packed: the gradient in the backend's layout; NULL: it is canonical in arrays.gradient. Where replicas share the
 * weights, packing begins when all of them have updated their part. */
static kolo_status update_weights(kolo_replica *replica, const float *packed)
{
    kolo_update_job job = replica->job;
    job.packed_gradient = packed;
    KOLO_TRY(enqueue_job(replica, &job));
    if (updates_of(replica)->packs) return kolo_engine_copy_weights(replica->engine);
    KOLO_TRY(kolo_replica_wait_for_sharers(replica)); /* from here on gradients may be overwritten, too */
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(kolo_replica_pack_weights(replica));
    kolo_timeline_end(begun, kolo_replica_span(replica, KOLO_SPAN_UNPACK), "weights");
    return replica->trainer->weight_placement == KOLO_WEIGHTS_SHARED ? kolo_replica_wait_for_sharers(replica) : KOLO_OK;
}

static bool is_alone(const kolo_replica *replica)
{
    return replica->group->size == 1 && replica->trainer->weight_placement == KOLO_WEIGHTS_COPIED;
}

/* Enqueues the update. A replica that is alone in its group sums its gradient nodes here. Where the backend's update
 * takes the gradient in the backend's layout, the sum is not unpacked first. */
static kolo_status enqueue_update(kolo_replica *replica)
{
    bool alone = is_alone(replica);
    const float *packed = NULL;
    if (alone && !replica->accumulated && !replica->collected && updates_of(replica)->packs) {
        KOLO_TRY(kolo_replica_nodes_sum(replica, &packed));
        if (packed) return update_weights(replica, packed);
    }
    if (alone) {
        KOLO_TRY(kolo_replica_collect(replica));
        KOLO_TRY(kolo_replica_accumulate(replica));
    }
    return replica->complete ? update_weights(replica, NULL) : KOLO_OK;
}

/* ---------------------------------------------------------------- captured */

/* Called in the capture of a step. Later launches go without the call, so it leaves the replica as it was. */
static kolo_status enqueue_in_graph(void *owner)
{
    kolo_replica *replica = owner;
    kolo_status status = enqueue_update(replica);
    replica->collected = false;
    return status;
}

void kolo_replica_offer_update(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    bool fits = is_alone(replica) && kolo_model_strategy(trainer->model)->updates_every_step && !replica->accumulated &&
                !replica->by_host;
    replica->engine->update = fits ? enqueue_in_graph : NULL;
    replica->engine->update_owner = replica;
}

/* ---------------------------------------------------------------- counting */

/* any: the update had samples, so there was a mean gradient. The host waits for the outcome of loss scaling only if
 * a strategy or a callback may look at the counters after every step. */
static kolo_status count_update(kolo_replica *replica, bool any)
{
    kolo_counters *counters = &replica->counters;
    counters->steps++;
    counters->accumulated_batches++;
    counters->accumulated_samples += replica->samples;
    if (!replica->complete) return KOLO_OK;
    counters->accumulated_batches = 0;
    counters->accumulated_samples = 0;
    if (!any) return KOLO_OK;
    if (!replica->scaling) counters->updates++;
    else if (updates_weights(replica))
        replica->enqueued_updates++; /* kolo_trainer_share_scaling() sends the outcome to the others */
    return replica->trainer->exact || replica->has_totals ? kolo_replica_synchronize_scaling(replica) : KOLO_OK;
}

/* ---------------------------------------------------------------- by the host */

/* kolo_host_update() counts an update that it does not skip, and count_update() then counts every update: this
 * subtracts one. */
static void take_scaling(kolo_counters *counters, const kolo_scaling *scaling)
{
    counters->loss_scale = scaling->loss_scale;
    counters->good = scaling->good;
    counters->updates = scaling->updates - 1;
}

/* Updates the host's arrays, for an optimizer whose rule the device lacks. */
static kolo_status update_by_host(kolo_replica *replica, const kolo_step_parameters *numbers)
{
    kolo_update_job job = replica->host_job;
    kolo_counters *counters = &replica->counters;
    bool scaled = replica->trainer->model->settings.precision == KOLO_MIXED_FP16;
    kolo_scaling scaling = {.loss_scale = counters->loss_scale, .good = counters->good, .updates = counters->updates};
    KOLO_TRY(kolo_replica_fetch_gradient(replica));
    job.weights = replica->weights;
    job.gradient = replica->gradient;
    for (int i = 0; i < KOLO_OPTIMIZER_SLOTS; i++) job.slots[i] = replica->slots[i];
    job.numbers = replica->numbers;
    job.step_parameters = numbers;
    job.scaling = scaled ? &scaling : NULL;
    KOLO_TRY(kolo_host_update(&job, NULL));
    if (scaled) take_scaling(counters, &scaling);
    return kolo_replica_store(replica, false);
}

/* Several parts may be updated at once, so each has partial sums of its own. */
kolo_status kolo_replica_update_center(kolo_replica *replica, const kolo_part_range *range, float *weights,
                                       const float *gradient, const kolo_ticket *ticket)
{
    kolo_update_job job = replica->host_job;
    const kolo_optimizer *optimizer = job.optimizer;
    double per_sample = 1 / ticket->samples;
    kolo_step_parameters numbers = {.per_sample = per_sample, .scale = per_sample, .update = ticket->updates + 1};
    bool scheduled = optimizer->common.schedule.kind != NULL;
    double rate = scheduled ? kolo_optimizer_rate(optimizer, ticket->updates) : ticket->learning_rate;
    numbers.rule[KOLO_RULE_LEARNING_RATE] = rate;
    if (optimizer->kind->rule) kolo_rule_numbers(optimizer, rate, numbers.update, numbers.rule);
    job.spans += range->first_parameter;
    job.span_count = range->end_parameter - range->first_parameter;
    job.weights = weights;
    job.gradient = (float *)gradient;
    for (int i = 0; i < KOLO_OPTIMIZER_SLOTS; i++) job.slots[i] = replica->slots[i];
    job.numbers = replica->numbers ? replica->numbers + range->first_parameter : NULL;
    job.step_parameters = &numbers;
    job.scaling = NULL;
    job.prepared = NULL;
    KOLO_TRY(kolo_host_expect_update(NULL, &job));
    kolo_status status = kolo_host_update(&job, NULL);
    kolo_host_forget_update(NULL, &job);
    return status;
}

/* ---------------------------------------------------------------- the call */

/* Updates with the step parameters of the shard. */
static kolo_status update_as_enqueued(kolo_replica *replica)
{
    if (kolo_engine_has_updated(replica->engine)) return KOLO_OK;
    if (!replica->began) KOLO_TRY(kolo_replica_streams(replica)->synchronize(replica->stream));
    replica->began = true;
    return enqueue_update(replica);
}

/* Updates with the replica's local gradient, or with one that the strategy has changed on the host. The strategy may
 * also have changed totals.samples, so the step parameters are corrected. */
static kolo_status update_apart(kolo_replica *replica, bool any)
{
    kolo_step_parameters numbers = kolo_replica_step_parameters(replica);
    KOLO_TRY(replica->gradient_on_host ? kolo_replica_store_gradient(replica) : kolo_replica_collect(replica));
    if (any) KOLO_TRY(kolo_engine_correct(replica->engine, &numbers));
    KOLO_TRY(kolo_replica_accumulate(replica));
    return any && replica->complete ? update_weights(replica, NULL) : KOLO_OK;
}

static kolo_status update_on_the_host(kolo_replica *replica, bool any)
{
    kolo_step_parameters numbers = kolo_replica_step_parameters(replica);
    if (replica->gradient_on_host) KOLO_TRY(kolo_replica_store_gradient(replica));
    if (replica->group->size == 1 || !replica->has_group_sum) {
        KOLO_TRY(kolo_replica_collect(replica));
        KOLO_TRY(kolo_replica_accumulate(replica));
    }
    return any && replica->complete ? update_by_host(replica, &numbers) : KOLO_OK;
}

/* The samples that the gradient is a sum over. If the totals have not been read back, and the strategy has not set
 * them, they are the group's, as kolo_replica_compute() has set them, or the shard's. */
static void set_samples(kolo_replica *replica)
{
    if (replica->has_totals || replica->totals.samples > 0) replica->samples = replica->totals.samples;
    else if (!replica->has_group_sum) replica->samples = replica->shard_samples;
}

/* The update may have been made with the gradient as it was. */
static kolo_status check_promise(const kolo_replica *replica)
{
    const kolo_strategy_kind *kind = kolo_model_strategy(replica->trainer->model);
    if (!kind->updates_every_step || !replica->gradient_on_host) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "strategy %s: step(): wanted no call of kolo_replica_gradient() before kolo_replica_update(), as "
                     ".updates_every_step says, got one",
                     kind->name);
}

static kolo_status update(kolo_replica *replica)
{
    bool apart = !replica->has_group_sum || replica->gradient_on_host;
    KOLO_TRY(check_promise(replica));
    if (apart) KOLO_TRY(kolo_replica_synchronize_scaling(replica)); /* the step parameters are computed here */
    if (apart) set_samples(replica);
    if (apart) replica->complete = kolo_replica_completes(replica);
    bool any = replica->counters.accumulated_samples + replica->samples > 0;
    if (replica->by_host) KOLO_TRY(update_on_the_host(replica, any));
    else if (apart) KOLO_TRY(update_apart(replica, any));
    else if (any) KOLO_TRY(update_as_enqueued(replica));
    if (any && replica->complete) replica->timings.updated_bytes += kolo_replica_central_bytes(replica);
    return count_update(replica, any);
}

/* Reads back the totals of earlier steps at the end, while the stream computes. */
kolo_status kolo_replica_update(kolo_replica *replica)
{
    double started = kolo_now();
    int64_t begun = kolo_timeline_begin();
    kolo_replica_take_back(replica);
    replica->called |= KOLO_CALLED_UPDATE;
    KOLO_TRY(update(replica));
    kolo_timeline_end(begun, replica->by_host ? KOLO_SPAN_UPDATE : kolo_replica_span(replica, KOLO_SPAN_UPDATE),
                      "update");
    replica->timings.update += kolo_now() - started;
    return kolo_replica_read_totals(replica, replica->trainer->exact);
}
