/* What a step is made of, for whoever writes a strategy: see strategy.h. */
#include <string.h>

#include "comm/sum.h"
#include "runtime/runtime.h"
#include "training/trainer.h"
#include "core/clock.h"
#include "replica/queued_replica.h"
#include "replica/rounds.h"
#include "replica/tree_sum.h"

kolo_comm *kolo_replica_comm(kolo_replica *replica)
{
    return replica->group;
}

/* Who computes with what could not be fetched will find it, too. */
float *kolo_replica_weights(kolo_replica *replica)
{
    if (replica->device && !replica->device->on_host) kolo_queued_replica_fetch(replica, false);
    return replica->weights;
}

int64_t kolo_replica_count(const kolo_replica *replica)
{
    return replica->trainer->model->weight_count;
}

kolo_totals *kolo_replica_totals(kolo_replica *replica)
{
    return &replica->totals;
}

kolo_status kolo_replica_pack(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    if (replica->device) return kolo_queued_replica_store(replica, false);
    if (trainer->weight_placement != KOLO_WEIGHTS_SHARED) return kolo_engine_pack(replica->engine, replica->weights);
    return kolo_engine_pack_together(replica->engine, replica->weights, &trainer->packed);
}

/* ---------------------------------------------------------------- compute */

static kolo_shard shard_of(const kolo_replica *replica, const kolo_batch *batch)
{
    const kolo_comm *group = replica->group;
    const kolo_model *model = replica->trainer->model;
    int64_t microbatches = kolo_batch_microbatches(batch);
    int end = group->rank + replica->trainer->count / replica->trainer->running; /* whose samples are not its own */
    bool rest_last = model->settings.strategy.last_takes_remainder;
    return (kolo_shard){.data = replica->trainer->data,
                        .batch = batch,
                        .seed = replica->trainer->seed,
                        .first_microbatch = kolo_shard_begin(microbatches, group->rank, group->size, rest_last),
                        .end_microbatch = kolo_shard_begin(microbatches, end, group->size, rest_last),
                        .rest_last = rest_last,
                        .loss_scale = replica->counters.sample_scale,
                        .stoppable = replica->group == replica->local,
                        .group = replica->group,
                        .deterministic = model->settings.deterministic};
}

/* The feeds that the replica's samples go through, the process's and its device's; either may be missing. */
static kolo_status take_samples(kolo_replica *replica, const kolo_batch *batch, const kolo_staged *staged[2])
{
    const kolo_trainer *trainer = replica->trainer;
    double started = kolo_now();
    if (trainer->feed) KOLO_TRY(kolo_feed_take(trainer->feed, batch, NULL, &staged[0]));
    if (replica->feed) KOLO_TRY(kolo_feed_take(replica->feed, batch, staged[0], &staged[1]));
    replica->timings.slicing += kolo_now() - started;
    return KOLO_OK;
}

static kolo_status run_shard(kolo_replica *replica, const kolo_batch *batch)
{
    kolo_shard shard = shard_of(replica, batch);
    const kolo_staged *staged[2] = {NULL, NULL};
    kolo_status status = take_samples(replica, batch, staged);
    shard.staged = staged[1] ? staged[1] : staged[0];
    if (status == KOLO_OK)
        status = replica->device ? kolo_queued_replica_compute(replica, &shard)
                                 : kolo_engine_run(replica->engine, &shard, replica->reduction);
    if (staged[1]) kolo_feed_release(replica->feed, staged[1]);
    if (staged[0]) kolo_feed_release(replica->trainer->feed, staged[0]);
    return status;
}

kolo_status kolo_replica_compute(kolo_replica *replica, const kolo_batch *batch)
{
    kolo_trainer *trainer = replica->trainer;
    kolo_counters *counters = &replica->counters;
    double per_sample = trainer->model->settings.precision == KOLO_MIXED_FP16 ? 1 / (double)batch->samples : 1;
    if (counters->waiting == 0) counters->sample_scale = counters->loss_scale * per_sample;
    double started = kolo_now();
    bool one_tree = replica->reduction == trainer->meeting && !replica->device; /* others have begun, too */
    if (!one_tree) kolo_reduction_begin(replica->reduction, kolo_batch_microbatches(batch));
    KOLO_TRY(run_shard(replica, batch));
    replica->timings.compute += kolo_now() - started;
    replica->gathered = replica->summed = false;
    if (!replica->device) {
        replica->own = one_tree ? (kolo_totals){0} : kolo_reduction_totals(replica->reduction);
        replica->own.used = replica->engine->program->plan.metric_sums; /* also where it had no microbatch */
    } else if (!replica->device->told) {
        replica->own = (kolo_totals){0}; /* they come later */
    }
    bool stop = replica->index == 0 && (kolo_stop_requested() || trainer->model->stop_training);
    replica->own.stops = stop ? 1 : 0;
    replica->totals = replica->own;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- agree */

kolo_status kolo_replica_gradient(kolo_replica *replica, float **gradient)
{
    const kolo_program *program = replica->engine->program;
    kolo_node nodes[KOLO_REDUCTION_MOST];
    *gradient = replica->gradient;
    replica->summed = true;
    if (replica->device) return kolo_queued_replica_gradient(replica);
    int count = kolo_reduction_take(replica->reduction, nodes);
    kolo_status status = KOLO_OK;
    if (count == 0) memset(replica->gradient, 0, (size_t)kolo_replica_count(replica) * sizeof(float));
    kolo_reduction_memory memory = kolo_program_reduction_memory(program);
    for (int i = 1; i < count; i++) memory.add(memory.whose, nodes[0].gradient, nodes[i].gradient);
    if (count > 0) status = kolo_program_unpack(program, nodes[0].gradient, replica->gradient);
    for (int i = 0; i < count; i++) kolo_reduction_return(replica->reduction, nodes[i].gradient);
    return status;
}

bool kolo_replica_gather(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    int64_t count = trainer->model->weight_count;
    bool one_sum = trainer->model->settings.deterministic || trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    bool others = one_sum && kolo_replica_owner(replica) != replica;
    replica->gathered = true;
    replica->counters.waiting++;
    if (!replica->waiting) return true;
    bool complete = replica->counters.waiting == trainer->model->settings.optimizer.common.accumulate_steps;
    if (others) return complete; /* the sum of all is with its owner */
    kolo_host_add(replica->waiting, replica->gradient, count);
    if (!complete) return false;
    float *sum = replica->waiting;
    replica->waiting = replica->gradient;
    replica->gradient = sum;
    memset(replica->waiting, 0, (size_t)count * sizeof *replica->waiting);
    return true;
}

static kolo_status agree_in_order(kolo_replica *replica)
{
    KOLO_TRY(kolo_tree_sum(replica));
    kolo_replica_gather(replica);
    return replica->waiting ? kolo_replica_meet(replica) : KOLO_OK;
}

/* The process's sum, and when the group of batches is complete that of all ranks. */
static kolo_status sum_over_ranks(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    kolo_comm *ranks = kolo_model_ranks(trainer->model);
    kolo_totals *totals = &trainer->sum_totals;
    float *gradient;
    KOLO_TRY(kolo_replica_gradient(replica, &gradient));
    *totals = replica->own;
    if (kolo_replica_gather(replica))
        KOLO_TRY(ranks->kind->allreduce(ranks, replica->gradient, kolo_replica_count(replica), KOLO_TYPE_FLOAT));
    KOLO_TRY(ranks->kind->allreduce(ranks, totals, kolo_totals_size(totals), KOLO_TYPE_DOUBLE));
    totals->used = replica->own.used;
    return KOLO_OK;
}

/* Replicas that share the weights have put their microbatches into one tree. What is left is one sum, as on one device.
 */
static kolo_status agree_in_one_tree(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    if (trainer->model->settings.deterministic || replica->group == replica->local) return agree_in_order(replica);
    double started = kolo_now();
    KOLO_TRY(kolo_replica_meet(replica));
    replica->timings.waiting += kolo_now() - started;
    if (replica->index == 0) kolo_replica_own_totals(replica);
    if (replica->index == 0) KOLO_TRY(sum_over_ranks(replica));
    else kolo_replica_gather(replica);
    KOLO_TRY(kolo_replica_meet(replica));
    replica->totals = trainer->sum_totals;
    return KOLO_OK;
}

void kolo_replica_own_totals(kolo_replica *replica)
{
    double stops = replica->own.stops, used = replica->own.used;
    replica->own = kolo_reduction_totals(replica->reduction);
    replica->own.stops = stops;
    replica->own.used = used;
}

/* The first thing that members do together: here those who are done wait for the others. */
static kolo_status sum_totals_of_all(kolo_replica *replica)
{
    kolo_totals *totals = &replica->totals;
    double started = kolo_now();
    KOLO_TRY(replica->group->kind->allreduce(replica->group, totals, kolo_totals_size(totals), KOLO_TYPE_DOUBLE));
    totals->used = replica->own.used; /* a number of sums, not a sum */
    replica->timings.waiting += kolo_now() - started;
    return KOLO_OK;
}

static int64_t gradient_bytes(const kolo_replica *replica)
{
    return kolo_replica_count(replica) * (int64_t)sizeof(float);
}

/* A member of a group of N sends so much in a reduce-scatter, and receives so much in an all-gather, of all weights. */
static int64_t slice_bytes(const kolo_replica *replica)
{
    return gradient_bytes(replica) * (replica->group->size - 1) / replica->group->size;
}

/* What it hands over to whoever sums: nothing, where that is itself. */
static int64_t bytes_to_others(const kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    bool away = trainer->parameter_team || replica->index != trainer->updater;
    return away ? gradient_bytes(replica) : 0;
}

/* A group of batches is summed over all members when it is complete, as Horovod's backward_passes_per_step has it; in
 * deterministic mode after every batch, since the order of a sum must not depend on who computed what. */
kolo_status kolo_replica_allreduce(kolo_replica *replica)
{
    double started = kolo_now(), waited = replica->timings.waiting;
    kolo_comm *group = replica->group;
    float *gradient;
    if (replica->device) {
        replica->timings.reduced_bytes += 2 * slice_bytes(replica);
        return kolo_queued_replica_allreduce(replica);
    }
    if (replica->trainer->weight_placement == KOLO_WEIGHTS_SHARED) KOLO_TRY(agree_in_one_tree(replica));
    else if (replica->trainer->model->settings.deterministic) KOLO_TRY(agree_in_order(replica));
    else {
        KOLO_TRY(kolo_replica_gradient(replica, &gradient));
        KOLO_TRY(sum_totals_of_all(replica));
        if (kolo_replica_gather(replica))
            KOLO_TRY(group->kind->allreduce(group, replica->gradient, kolo_replica_count(replica), KOLO_TYPE_FLOAT));
    }
    replica->timings.reduce += kolo_now() - started - (replica->timings.waiting - waited);
    bool once = replica->trainer->weight_placement == KOLO_WEIGHTS_SHARED && replica->group == replica->local;
    replica->timings.reduced_bytes += (once ? 1 : 2) * slice_bytes(replica);
    return KOLO_OK;
}

/* On the parameter device, over all replicas in their order: the same bits as an all-reduce's. */
static void add_piece(void *argument, const kolo_piece *piece)
{
    kolo_trainer *trainer = argument;
    int64_t first = piece->parameter->offset + piece->first;
    void *from[KOLO_DEVICES_MAX];
    for (int i = 0; i < trainer->count; i++) from[i] = trainer->replicas[i].gradient;
    kolo_sum_slice(KOLO_TYPE_FLOAT, from, trainer->count, from, 1, first, first + piece->count);
}

kolo_status kolo_replica_reduce(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    bool between_ranks = replica->group != replica->local;
    bool deterministic = trainer->model->settings.deterministic;
    if (trainer->weight_placement != KOLO_WEIGHTS_CENTRAL || between_ranks || deterministic)
        return kolo_replica_allreduce(replica);
    double started = kolo_now(), waited = replica->timings.waiting;
    float *gradient;
    KOLO_TRY(kolo_replica_gradient(replica, &gradient));
    bool complete = kolo_replica_gather(replica);
    KOLO_TRY(sum_totals_of_all(replica)); /* now all gradients are there */
    if (complete) KOLO_TRY(kolo_round(replica, false, add_piece, trainer));
    replica->timings.reduce += kolo_now() - started - (replica->timings.waiting - waited);
    if (complete) replica->timings.reduced_bytes += bytes_to_others(replica);
    return KOLO_OK;
}
