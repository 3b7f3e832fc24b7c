/* A replica: one copy of the model at work in this process. compute.c, reduce.c and update.c are the three parts of a
 * strategy's step (strategy/strategy.h).
 *
 * A replica has each of its arrays twice: on the host, for checkpoints and strategies, and in its stream's memory, for
 * kernels. On a stream of the host both are the same memory. kolo_replica_store() copies the host's arrays to the
 * stream's, kolo_replica_fetch() the stream's to the host's. Read engine/engine.h first.
 */
#ifndef KOLO_REPLICA_REPLICA_H
#define KOLO_REPLICA_REPLICA_H

#include "engine/engine.h"
#include "optimizers/optimizer.h"
#include "strategy/strategy.h"

typedef struct kolo_trainer kolo_trainer;

/* A training's state besides its arrays: plain numbers, equal on all replicas and ranks, which checkpoints hold. */
typedef struct kolo_counters {
    int64_t steps; /* batches since kolo_compile(); seeds the order of samples and dropout's masks */
    int64_t updates; /* of the weights; schedules and Adam's corrections use it */
    int64_t waiting; /* batches accumulated for the next update, fewer than .accumulate_steps */
    double waiting_samples; /* the number of samples in them */
    /* With KOLO_MIXED_FP16; otherwise 1, 1 and 0: */
    double loss_scale; /* multiplies the mean loss in the backward pass */
    double sample_scale; /* multiplies each sample's loss; the same in all batches of an update */
    int64_t good; /* updates since loss_scale last changed */
} kolo_counters;

/* The counters at the beginning of a training. */
static inline kolo_counters kolo_counters_start(const kolo_model *model)
{
    bool half = model->settings.precision == KOLO_MIXED_FP16;
    return (kolo_counters){.loss_scale = half ? 0x1p15 : 1, .sample_scale = 1}; /* Keras's */
}

/* Arrays in the stream's memory, [weight_count] each, but numbers[parameter_count]. */
typedef struct kolo_replica_arrays {
    float *weights, *gradient, *waiting, *slots[KOLO_OPTIMIZER_SLOTS], *numbers;
} kolo_replica_arrays;

struct kolo_replica {
    kolo_trainer *trainer;
    int index; /* among this process's replicas */
    kolo_comm *local,
        *group; /* over the replicas of this process; over those of all ranks if distributed, else local */
    kolo_comm *comm; /* over the group, for memory of the stream; NULL: not open yet */
    kolo_stream *stream; /* of its first device; it outlives the engine */
    kolo_engine *engine;
    kolo_reduction
        *tree; /* of its microbatches' gradients: its own, or the trainer's where replicas share their weights */
    /* On the host, canonical, [weight_count] each. Where replicas share them, all but the gradient are replica 0's: */
    float *weights, *gradient, *slots[KOLO_OPTIMIZER_SLOTS];
    float *numbers; /* [parameter_count], for the optimizer: kind->number */
    float *waiting; /* the summed gradients of counters.waiting batches: of this replica's samples, or of the group's in
                       deterministic mode; NULL: every batch updates */
    kolo_replica_arrays arrays;
    kolo_span *spans; /* [parameter_count] */
    kolo_update_job job;
    bool by_host; /* the host updates, since the device lacks the optimizer's rule */
    /* Of the current step: */
    double samples; /* of the batch, over all members; a strategy may change totals.samples, the divisor of the mean */
    bool complete; /* the batch ends a group of .accumulate_steps */
    bool agreed; /* the gradient is the sum over all members, or there is only one member */
    bool summed; /* the gradient is in `gradient`, where a strategy may have changed it */
    bool collected; /* the gradient is in arrays.gradient */
    bool has_totals; /* the step's totals have been read back, so a strategy may look at them */
    bool began; /* an update has been enqueued before, so code that it needs is loaded */
    /* The loss's scale on an asynchronous stream: loss_scaling.c */
    kolo_scaling *scaling; /* in the stream's memory; NULL: the loss is not scaled */
    kolo_scaling known; /* the state that the counters reflect */
    bool placed; /* *scaling is up to date; else the counters are, and have to be copied there */
    int64_t tries; /* updates that were enqueued; the host does not know the outcome of the last tries - known.tried */
    kolo_totals own; /* of this replica's samples of the last step */
    kolo_totals totals; /* the same; after an all-reduce the group's */
    kolo_counters counters;
    kolo_timings timings; /* of this fit; the engine and the feeds hold more about slicing */
    kolo_feed *feed; /* stages samples in the device's memory; NULL: none */
};

/* arrays.c. Allocates the host's arrays, filled with zeros; where replicas share weights, takes those of replica 0. */
kolo_status kolo_replica_open(kolo_trainer *trainer, int index);
void kolo_replica_close(kolo_replica *replica);
/* Opens an engine for microbatches of that size. Arrays and counters stay. */
kolo_status kolo_replica_open_engine(kolo_replica *replica, int microbatch, int threads, sem_t *gate);
void kolo_replica_close_engine(kolo_replica *replica);
/* Copies the host's arrays to the stream's and packs the weights; copies the stream's to the host's. Both copy the
 * weights, and with `state` also the optimizer's state. */
kolo_status kolo_replica_store(kolo_replica *replica, bool state);
kolo_status kolo_replica_fetch(kolo_replica *replica, bool state);
kolo_status kolo_replica_is_finite(kolo_replica *replica, bool *finite);
/* Packs the stream's weights; where replicas share them, this replica's part. */
kolo_status kolo_replica_pack_weights(kolo_replica *replica);
/* Copies the host's gradient to the stream, or back, and waits. */
kolo_status kolo_replica_store_gradient(kolo_replica *replica);
kolo_status kolo_replica_fetch_gradient(kolo_replica *replica);
/* The replica whose arrays this one updates: itself, or replica 0 where they are shared. */
kolo_replica *kolo_replica_owner(kolo_replica *replica);

/* compute.c. Calls kolo_engine_attach(). The counters, which the caller may have changed, hold from then on. */
kolo_status kolo_replica_attach(kolo_replica *replica, const kolo_data *data, int64_t samples, int64_t wanted);
/* Waits for the totals of all steps that have not been read back, and sums them over all members. The counters are
 * exact afterwards; with loss scaling they lag behind the steps until then, unless trainer->exact. */
kolo_status kolo_replica_settle(kolo_replica *replica);
/* Reads back totals into the replica's, unless it has those of the current step. wait: those of all enqueued steps. */
kolo_status kolo_replica_read_totals(kolo_replica *replica, bool wait);
/* Whether the current batch ends a group of .accumulate_steps. */
bool kolo_replica_completes(const kolo_replica *replica);
/* The step parameters of the update after this batch, if there is one. */
kolo_step_parameters kolo_replica_numbers(const kolo_replica *replica);

/* reduce.c. Sums the gradients of its microbatches into arrays.gradient. */
kolo_status kolo_replica_collect(kolo_replica *replica);
/* Adds arrays.gradient to the waiting ones of earlier batches. If the group of batches is complete, arrays.gradient
 * becomes the sum. */
kolo_status kolo_replica_accumulate(kolo_replica *replica);
/* Closes the stream's comm, which has to happen before the group closes. The next sum opens it again. */
void kolo_replica_leave(kolo_replica *replica);
/* Opens the stream's comm if it is not open. */
kolo_status kolo_replica_join(kolo_replica *replica);
/* Waits for all running replicas of the process; for the replicas that share this one's weights, if any. */
kolo_status kolo_replica_wait(kolo_replica *replica);
kolo_status kolo_replica_wait_for_sharers(kolo_replica *replica);

/* loss_scaling.c. All do nothing where the loss is not scaled. */
kolo_status kolo_replica_open_scaling(kolo_replica *replica);
/* Copies the counters' scaling to the stream if needed; called before a step's parameters are made. */
kolo_status kolo_replica_prepare_scaling(kolo_replica *replica);
/* Fills in what the stream needs to complete the step parameters of a batch of so many samples. */
void kolo_replica_set_scaling(const kolo_replica *replica, int64_t batch_samples,
                              kolo_step_parameters *step_parameters);
/* After totals were read back: sets the counters to their values at the beginning of that step, unless they are newer.
 * The second sets them to their current values, and waits for enqueued updates. */
void kolo_replica_read_scaling(kolo_replica *replica);
kolo_status kolo_replica_synchronize_scaling(kolo_replica *replica);

static inline const kolo_stream_kind *kolo_replica_streams(const kolo_replica *replica)
{
    return replica->engine->streams;
}

#endif
