/* A replica: one copy of the model that trains in this process. compute.c, reduce.c and update.c implement the three
 * parts of a strategy's step (strategy/strategy.h).
 *
 * A replica has each of its arrays twice: on the host, for checkpoints and strategies, and in its stream's memory, for
 * kernels. On a stream of the host both are the same memory. kolo_replica_store() copies the host's arrays to the
 * stream's, kolo_replica_fetch() copies them back. Read engine/engine.h first.
 */
#ifndef KOLO_REPLICA_REPLICA_H
#define KOLO_REPLICA_REPLICA_H

#include "core/timeline.h"
#include "engine/engine.h"
#include "optimizers/optimizer.h"
#include "replica/center_part.h"

typedef struct kolo_trainer kolo_trainer;
typedef struct kolo_row_tables kolo_row_tables;
typedef struct kolo_second_stream kolo_second_stream; /* second_stream.h */

/* The scalar state of a training, which is equal on all replicas and ranks. Checkpoints hold it. */
typedef struct kolo_counters {
    int64_t steps; /* batches since kolo_compile(); seeds the order of samples and dropout's masks */
    int64_t updates; /* updates of the weights so far; schedules and Adam's bias correction use it */
    int64_t accumulated_batches; /* batches accumulated for the next update, fewer than .accumulate_steps */
    double accumulated_samples; /* samples in those batches */
    /* The loss scaling of KOLO_MIXED_FP16; with other precisions these are 1, 1 and 0: */
    double loss_scale; /* multiplies the mean loss in the backward pass */
    double sample_scale; /* multiplies each sample's loss; all batches of an update use the same */
    int64_t good; /* updates since loss_scale last changed */
} kolo_counters;

/* The counters at the beginning of a training. */
static inline kolo_counters kolo_counters_start(const kolo_model *model)
{
    bool half = model->settings.precision == KOLO_MIXED_FP16;
    return (kolo_counters){.loss_scale = half ? 0x1p15 : 1, .sample_scale = 1}; /* 2^15 is Keras's initial scale */
}

/* Arrays in the stream's memory: numbers[parameter_count], the others [weight_count]. */
typedef struct kolo_replica_arrays {
    float *weights, *gradient, *accumulated, *slots[KOLO_OPTIMIZER_SLOTS], *numbers;
} kolo_replica_arrays;

struct kolo_replica {
    kolo_trainer *trainer;
    int index; /* the replica's number in this process, from 0 */
    kolo_comm *local, *group; /* the replicas of this process; those of all ranks if distributed, else the same comm */
    kolo_comm *comm; /* sums memory of the stream over the group; NULL: not open yet */
    kolo_stream *stream; /* the stream of the replica's first device; it outlives the engine */
    kolo_second_stream *second; /* sums gradients beside the backward pass; NULL: there is none */
    kolo_engine *engine;
    kolo_reduction
        *tree; /* adds the gradients of the replica's microbatches; the trainer's where replicas share their weights */
    /* Host arrays, canonical, [weight_count] each. Where replicas share them, all but the gradient are replica 0's: */
    float *weights, *gradient, *slots[KOLO_OPTIMIZER_SLOTS];
    float *numbers; /* [parameter_count], the numbers of a kolo_optimizer_kind with .number */
    float *accumulated; /* the sum of the gradients of counters.accumulated_batches batches, over this replica's
                           samples. In deterministic mode over the group's, with KOLO_WEIGHTS_SHARED over the
                           process's: then the replica that owns the weights has it. NULL: every batch updates */
    kolo_replica_arrays arrays;
    kolo_row_tables *tables; /* embeddings whose gradients may be summed by rows (rank_sum.c); NULL: none */
    kolo_span *spans; /* [parameter_count] */
    kolo_update_job job;
    kolo_update_job host_job; /* the same for kolo_host_update(); used if by_host */
    bool by_host; /* the host makes the updates, since the device lacks the optimizer's rule */
    /* The current step: */
    double shard_samples; /* samples of the batch in this replica's shard */
    double samples; /* samples of the batch over all members, for the mean. For a gradient that is the replica's own,
                       or that the strategy changed, see set_samples() in update.c */
    bool complete; /* the batch ends a group of .accumulate_steps */
    bool has_group_sum; /* the gradient is the sum over all members, or there is only one member */
    bool gradient_on_host; /* the gradient is in `gradient`, where a strategy may have changed it */
    int64_t saved_bytes; /* that the last sum moved less than an all-reduce of floats (rank_sum.c) */
    bool collected; /* the gradient is in arrays.gradient */
    bool read_in_step; /* kolo_replica_read_totals() was called since the last compute */
    bool has_totals; /* the step's totals have been read back, so a strategy may look at them */
    bool began; /* an update has been enqueued before, so code that it needs is loaded */
    /* Loss scaling by the stream (loss_scaling.c): */
    kolo_scaling *scaling; /* in the stream's memory; NULL: the loss is not scaled, or the host updates */
    kolo_scaling read_scaling; /* the scaling state that the counters reflect */
    bool scaling_is_current; /* *scaling is up to date; false: the counters are newer and have to be copied to it */
    int64_t enqueued_updates; /* updates that were enqueued; the outcomes of the last
                                 enqueued_updates - read_scaling.tried were not read back yet */
    kolo_totals local_totals; /* totals of this replica's samples in the last step */
    kolo_totals totals; /* the same; after an all-reduce the group's totals */
    kolo_counters counters;
    kolo_timings timings; /* of this fit; the engine and the feeds hold further seconds and bytes of slicing */
    kolo_feed *feed; /* stages samples in the device's memory; NULL: none */
    /* Of a worker (workers.h): */
    double learning_rate; /* of its current batch */
    int64_t timeline_step; /* the current step, where it is recorded (core/timeline.h) */
    int64_t own_steps; /* steps of this replica, counted where faults are wanted */
    /* What the strategy's step() has called (first_step.c): */
    bool tried; /* its first step has been checked */
    unsigned called; /* KOLO_CALLED_… of all steps */
    bool lent; /* in the first step: the strategy has the weights, of this checksum, and has not packed them since */
    uint32_t lent_checksum;
};

enum {
    KOLO_CALLED_COMPUTE = 1,
    KOLO_CALLED_SUM = 2,
    KOLO_CALLED_UPDATE = 4,
    KOLO_CALLED_CHANGE = 8 /* an update, a pack or the gradient */
};

/* first_step.c. The strategy's step(). Fails with a sentence if it lacks a part that it or its kind needs. */
kolo_status kolo_replica_first_step(kolo_replica *replica, const kolo_batch *batch);
/* Notes that the strategy was given the weights; that it has packed or updated them. */
void kolo_replica_lend(kolo_replica *replica);
static inline void kolo_replica_take_back(kolo_replica *replica)
{
    replica->called |= KOLO_CALLED_CHANGE;
    replica->lent = false;
}
/* Warns once if no step of any replica has changed weights, or given its gradient to another. */
void kolo_warn_untrained(kolo_trainer *trainer);

/* adasum.c. Whether ranks combine their gradients by Adasum. The gradient of this rank becomes that of all ranks: of
 * the replica that speaks for the rank alone, whose gradient is the rank's sum; of all replicas, whose gradients are
 * their own. */
bool kolo_replica_uses_adasum(const kolo_replica *replica);
kolo_status kolo_replica_adasum(kolo_replica *replica);
kolo_status kolo_replica_adasum_of_copies(kolo_replica *replica);

/* arrays.c. Allocates the host's arrays. The optimizer's slots get their start values, all others zeros. Where replicas
 * share weights, it uses those of replica 0. */
kolo_status kolo_replica_open(kolo_trainer *trainer, int index);
void kolo_replica_close(kolo_replica *replica);
/* Opens an engine for microbatches of `microbatch` samples. Arrays and counters stay. */
kolo_status kolo_replica_open_engine(kolo_replica *replica, int microbatch, int threads, sem_t *gate);
void kolo_replica_detach_engine(kolo_replica *replica);
/* The first copies the host's arrays to the stream and packs the weights, the second copies the stream's arrays to the
 * host. Both copy the weights, and with `state` also the optimizer's state. */
kolo_status kolo_replica_store(kolo_replica *replica, bool state);
kolo_status kolo_replica_fetch(kolo_replica *replica, bool state);
kolo_status kolo_replica_is_finite(kolo_replica *replica, bool *finite);
/* Packs the stream's weights; where replicas share them, only this replica's part. */
kolo_status kolo_replica_pack_weights(kolo_replica *replica);
/* Copies the host's gradient to the stream, or back, and waits. */
kolo_status kolo_replica_store_gradient(kolo_replica *replica);
kolo_status kolo_replica_fetch_gradient(kolo_replica *replica);
/* The replica whose arrays this one updates: itself, or replica 0 where they are shared. */
kolo_replica *kolo_replica_owner(kolo_replica *replica);

/* compute.c. Calls kolo_engine_attach(). The next step takes its loss scaling from the counters, which the caller may
 * have changed. */
kolo_status kolo_replica_attach(kolo_replica *replica, const kolo_data *data, int64_t samples, int64_t wanted);
/* Sums the totals over the group after a step whose strategy did not call kolo_replica_allreduce() or _reduce(). */
kolo_status kolo_replica_share_totals(kolo_replica *replica);
/* Waits for the totals of all steps that have not been read back, and sums them over all members. The counters are
 * exact afterwards; with loss scaling they lag behind the steps until then, unless trainer->exact. */
kolo_status kolo_replica_settle(kolo_replica *replica);
/* Reads totals back into replica->totals, unless these are the current step's. wait: reads those of all enqueued steps;
 * else only those whose readback the next step needs. */
kolo_status kolo_replica_read_totals(kolo_replica *replica, bool wait);
/* Whether the current batch ends a group of .accumulate_steps. */
bool kolo_replica_completes(const kolo_replica *replica);
/* The step parameters of the update after this batch, if there is one. */
kolo_step_parameters kolo_replica_step_parameters(const kolo_replica *replica);

/* update.c. Lets the engine capture the update with the shard, if the strategy has nothing to do between them and every
 * step makes an update. */
void kolo_replica_offer_update(kolo_replica *replica);
/* update.c. One step of the optimizer by the host, on a part of the centre: a kolo_center_update. The optimizer's state
 * is this replica's. */
kolo_status kolo_replica_update_center(kolo_replica *replica, const kolo_part_range *range, float *weights,
                                       const float *gradient, const kolo_ticket *ticket);
/* The learning rate of the current batch. */
double kolo_replica_rate(const kolo_replica *replica);

/* trainer_step.c. Enters the replica's row of the timeline. */
kolo_timeline_place kolo_replica_enter_row(const kolo_replica *replica, int64_t step);

/* reduce.c. Sums the gradients of the replica's microbatches into arrays.gradient. */
kolo_status kolo_replica_collect(kolo_replica *replica);
/* Adds arrays.gradient to the accumulated gradients of earlier batches. If the group of batches is complete,
 * arrays.gradient becomes the sum. */
kolo_status kolo_replica_accumulate(kolo_replica *replica);
/* The number of microbatches that this replica and those behind it, `replicas` in all, compute of a batch of
 * `microbatches`. */
int64_t kolo_replica_microbatches(const kolo_replica *replica, int replicas, int64_t microbatches);
/* In a batch that completes a group: adds the accumulated gradients of earlier batches to `count` elements of
 * arrays.gradient, from element `first` on, and sets them to zero. */
kolo_status kolo_replica_add_accumulated(kolo_replica *replica, int64_t first, int64_t count);
/* The bytes of gradients that go from this replica to the updater, and of weights that come back: under
 * KOLO_WEIGHTS_CENTRAL all, unless this is the updater and updates on its own stream. */
int64_t kolo_replica_central_bytes(const kolo_replica *replica);
/* Closes the stream's comm, which has to happen before the group closes. The next sum opens it again. */
void kolo_replica_leave(kolo_replica *replica);
/* Opens the stream's comm if it is not open. */
kolo_status kolo_replica_join(kolo_replica *replica);
/* The first waits for all running replicas of the process, the second for those that share this one's weights, if any.
 */
kolo_status kolo_replica_wait(kolo_replica *replica);
kolo_status kolo_replica_wait_for_sharers(kolo_replica *replica);

/* loss_scaling.c. All do nothing where the loss is not scaled. */
kolo_status kolo_replica_open_scaling(kolo_replica *replica);
/* The caller calls it before it makes a step's parameters. Copies the scaling in the counters to the stream if needed,
 * and waits where more than KOLO_STEPS_AHEAD updates were not read back. */
kolo_status kolo_replica_prepare_scaling(kolo_replica *replica);
/* Fills in what the stream needs to complete the step parameters of a batch of so many samples. */
void kolo_replica_set_scaling(const kolo_replica *replica, int64_t batch_samples,
                              kolo_step_parameters *step_parameters);
/* The first is called after totals were read back. It sets the counters to their values at the beginning of that step,
 * unless the counters are newer. The second waits for all enqueued updates and sets the counters to their current
 * values. */
void kolo_replica_read_scaling(kolo_replica *replica);
kolo_status kolo_replica_synchronize_scaling(kolo_replica *replica);

static inline const kolo_stream_kind *kolo_replica_streams(const kolo_replica *replica)
{
    return replica->engine->streams;
}

/* The span of work that this thread does itself, or only enqueues. */
static inline kolo_timeline_span kolo_replica_span(const kolo_replica *replica, kolo_timeline_span span)
{
    return kolo_replica_streams(replica)->steps_ahead > 0 ? KOLO_SPAN_ENQUEUE : span;
}

#endif
