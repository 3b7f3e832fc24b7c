/* Computes a replica's shard of a batch, forward and backward, and reads back its totals. See strategy/strategy.h. */
#include "runtime/runtime.h"
#include "replica/trainer.h"
#include "core/clock.h"

static const kolo_compile_args *settings_of(const kolo_replica *replica)
{
    return &replica->trainer->model->settings;
}

bool kolo_replica_completes(const kolo_replica *replica)
{
    int steps = settings_of(replica)->optimizer.common.accumulate_steps;
    return steps <= 1 || replica->counters.accumulated_batches + 1 == steps;
}

const kolo_strategy *kolo_replica_strategy(const kolo_replica *replica)
{
    return &settings_of(replica)->strategy;
}

kolo_comm *kolo_replica_comm(kolo_replica *replica)
{
    return replica->group;
}

kolo_totals *kolo_replica_totals(kolo_replica *replica)
{
    return &replica->totals;
}

kolo_status kolo_replica_attach(kolo_replica *replica, const kolo_data *data, int64_t samples, int64_t wanted)
{
    KOLO_TRY(kolo_replica_synchronize_scaling(replica)); /* an interrupted training may have enqueued updates */
    replica->scaling_is_current = false;
    return kolo_engine_attach(replica->engine, data, samples, wanted);
}

/* ---------------------------------------------------------------- the replica's shard */

int64_t kolo_replica_microbatches(const kolo_replica *replica, int replicas, int64_t microbatches)
{
    const kolo_comm *group = replica->group;
    bool rest_last = replica->trainer->model->settings.strategy.last_takes_remainder;
    return kolo_shard_begin(microbatches, group->rank + replicas, group->size, rest_last) -
           kolo_shard_begin(microbatches, group->rank, group->size, rest_last);
}

static kolo_shard shard_of(const kolo_replica *replica, const kolo_batch *batch)
{
    const kolo_comm *group = replica->group;
    const kolo_model *model = replica->trainer->model;
    int64_t microbatches = kolo_batch_microbatches(batch);
    int end = group->rank + replica->trainer->count / replica->trainer->running; /* it may compute for all replicas */
    bool rest_last = model->settings.strategy.last_takes_remainder;
    return (kolo_shard){.data = replica->trainer->data,
                        .batch = batch,
                        .seed = replica->trainer->seed,
                        .first_microbatch = kolo_shard_begin(microbatches, group->rank, group->size, rest_last),
                        .end_microbatch = kolo_shard_begin(microbatches, end, group->size, rest_last),
                        .loss_scale = replica->counters.sample_scale,
                        .stoppable = !kolo_model_distributed(model),
                        .group = replica->group,
                        .deterministic = model->settings.deterministic};
}

static double samples_of(const kolo_shard *shard)
{
    const kolo_batch *batch = shard->batch;
    int64_t first = shard->first_microbatch * batch->microbatch, end = shard->end_microbatch * batch->microbatch;
    if (end > batch->samples) end = batch->samples;
    return end > first ? (double)(end - first) : 0;
}

/* Takes the batch's samples from the process's feed (staged[0]) and the replica's (staged[1]), if they exist. */
static kolo_status take_samples(kolo_replica *replica, const kolo_batch *batch, const kolo_staged *staged[2])
{
    const kolo_trainer *trainer = replica->trainer;
    double started = kolo_now();
    int64_t begun = trainer->feed || replica->feed ? kolo_timeline_begin() : 0;
    if (trainer->feed) KOLO_TRY(kolo_feed_take(trainer->feed, batch, NULL, &staged[0]));
    if (replica->feed) KOLO_TRY(kolo_feed_take(replica->feed, batch, staged[0], &staged[1]));
    kolo_timeline_end(begun, KOLO_SPAN_INPUT, "wait for the batch");
    replica->timings.slicing += kolo_now() - started;
    return KOLO_OK;
}

/* Worker 0 may change the model's learning rate while other workers compute. */
double kolo_replica_rate(const kolo_replica *replica)
{
    return replica->trainer->workers ? replica->learning_rate : replica->trainer->model->learning_rate;
}

/* An update by the host uses .scale as it is. With a kolo_scaling the stream replaces it, since the counters may lag.
 */
kolo_step_parameters kolo_replica_step_parameters(const kolo_replica *replica)
{
    const kolo_counters *counters = &replica->counters;
    const kolo_model *model = replica->trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    double samples = counters->accumulated_samples + replica->samples;
    kolo_step_parameters step_parameters = {
        .per_sample = 1 / samples, .scale = 1 / samples / counters->sample_scale, .update = counters->updates + 1};
    step_parameters.rule[KOLO_RULE_LEARNING_RATE] = kolo_replica_rate(replica);
    if (optimizer->kind->rule)
        kolo_rule_numbers(optimizer, kolo_replica_rate(replica), counters->updates + 1, step_parameters.rule);
    return step_parameters;
}

static kolo_status enqueue(kolo_replica *replica, const kolo_shard *shard)
{
    KOLO_TRY(kolo_replica_prepare_scaling(replica));
    if (replica->group->size > 1 && kolo_program_reduces_over_group(replica->engine->program))
        KOLO_TRY(kolo_replica_join(replica));
    kolo_step_parameters numbers = kolo_replica_step_parameters(replica);
    numbers.loss_scale = shard->loss_scale;
    kolo_replica_set_scaling(replica, shard->batch->samples, &numbers);
    replica->engine->tree = replica->tree;
    replica->engine->comm = replica->comm;
    kolo_replica_offer_update(replica);
    return kolo_engine_enqueue_step(replica->engine, shard, &numbers);
}

static kolo_status run_shard(kolo_replica *replica, const kolo_batch *batch)
{
    kolo_shard shard = shard_of(replica, batch);
    replica->shard_samples = samples_of(&shard);
    const kolo_staged *staged[2] = {NULL, NULL};
    kolo_status status = take_samples(replica, batch, staged);
    shard.staged = staged[1] ? staged[1] : staged[0];
    if (status == KOLO_OK) status = enqueue(replica, &shard);
    if (staged[1]) kolo_feed_release(replica->feed, staged[1]);
    if (staged[0]) kolo_feed_release(replica->trainer->feed, staged[0]);
    return status;
}

/* ---------------------------------------------------------------- totals */

/* Reads totals back into replica->local_totals and replica->totals. Where replicas share the weights, the totals of all
 * replicas go into one tree instead, from which kolo_replica_set_totals() takes them. */
static kolo_status read_finished(kolo_replica *replica, bool wait)
{
    double stops = replica->local_totals.stops;
    replica->local_totals =
        (kolo_totals){.used = replica->engine->program->plan.metric_sums}; /* for an empty shard, too */
    if (replica->trainer->weight_placement == KOLO_WEIGHTS_SHARED)
        KOLO_TRY(kolo_engine_read_back_into(replica->engine, true, replica->trainer->totals_tree));
    else KOLO_TRY(kolo_engine_read_back(replica->engine, wait, &replica->local_totals));
    replica->local_totals.stops = stops;
    replica->totals = replica->local_totals;
    kolo_replica_read_scaling(replica);
    return KOLO_OK;
}

/* Sums the totals over all members. */
static kolo_status sum_totals(kolo_replica *replica)
{
    kolo_comm *group = replica->group;
    if (group->size == 1) return KOLO_OK;
    KOLO_TRY(group->kind->allreduce(group, &replica->totals, kolo_totals_size(&replica->local_totals), KOLO_TYPE_DOUBLE,
                                    KOLO_REDUCE_SUM));
    replica->totals.used = replica->local_totals.used;
    return KOLO_OK;
}

kolo_status kolo_replica_read_totals(kolo_replica *replica, bool wait)
{
    if (replica->has_totals) return KOLO_OK;
    replica->read_in_step = true;
    KOLO_TRY(read_finished(replica, wait));
    return sum_totals(replica);
}

kolo_status kolo_replica_share_totals(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    if (trainer->weight_placement == KOLO_WEIGHTS_SHARED) return KOLO_OK; /* these are summed by an all-reduce only */
    if (!replica->has_totals)
        return replica->read_in_step ? KOLO_OK : kolo_replica_read_totals(replica, trainer->exact);
    if (replica->has_group_sum) return KOLO_OK;
    replica->totals = replica->local_totals;
    return sum_totals(replica);
}

kolo_status kolo_replica_settle(kolo_replica *replica)
{
    replica->local_totals.stops = 0;
    replica->has_totals = false;
    KOLO_TRY(kolo_replica_synchronize_scaling(replica));
    return kolo_replica_read_totals(replica, true);
}

/* ---------------------------------------------------------------- the step's first part */

/* A strategy may read the totals after each step, unless it sets .totals_may_lag. In deterministic mode an epoch's
 * totals must not depend on the timing of the readback. */
static bool needs_totals_now(const kolo_replica *replica)
{
    bool late = kolo_model_strategy(replica->trainer->model)->totals_may_lag && !settings_of(replica)->deterministic;
    return kolo_replica_streams(replica)->steps_ahead == 0 || !late;
}

kolo_status kolo_replica_compute(kolo_replica *replica, const kolo_batch *batch)
{
    kolo_trainer *trainer = replica->trainer;
    kolo_counters *counters = &replica->counters;
    double per_sample = settings_of(replica)->precision == KOLO_MIXED_FP16 ? 1 / (double)batch->samples : 1;
    if (counters->accumulated_batches == 0) counters->sample_scale = counters->loss_scale * per_sample;
    double started = kolo_now();
    replica->called |= KOLO_CALLED_COMPUTE;
    replica->samples = (double)batch->samples;
    replica->has_group_sum = replica->group->size == 1;
    replica->complete = kolo_replica_completes(replica);
    replica->gradient_on_host = replica->collected = replica->read_in_step = false;
    if (replica->tree != trainer->tree) kolo_reduction_begin(replica->tree, kolo_batch_microbatches(batch));
    KOLO_TRY(run_shard(replica, batch));
    replica->timings.compute += kolo_now() - started;
    bool stop = replica->index == 0 && (kolo_stop_requested() || trainer->model->stop_training);
    replica->has_totals = needs_totals_now(replica);
    replica->local_totals = (kolo_totals){.stops = stop ? 1 : 0}; /* the rest is read back now or some steps later */
    replica->totals = replica->local_totals;
    return replica->has_totals ? read_finished(replica, true) : KOLO_OK;
}
