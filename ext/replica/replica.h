/* A replica: one copy of the model at work in this process. What a strategy's step is made of (strategy.h) is here:
 * compute.c, reduce.c, update.c.
 *
 * Its arrays exist twice: the host's, which checkpoints and strategies see, and those that its stream's kernels reach.
 * On a stream of the host the two are the same memory, and copies between them do nothing. The host's are brought up to
 * date by kolo_replica_fetch(), and become the stream's by kolo_replica_store(). Read engine/engine.h first.
 */
#ifndef KOLO_REPLICA_REPLICA_H
#define KOLO_REPLICA_REPLICA_H

#include "engine/engine.h"
#include "optimizers/optimizer.h"
#include "strategy/strategy.h"

typedef struct kolo_trainer kolo_trainer;

/* What a training has come to beside its arrays: the same on all replicas and ranks, plain numbers to send and save. */
typedef struct kolo_counters {
    int64_t steps; /* batches since kolo_compile(): names orders of samples and dropout's masks */
    int64_t updates; /* of the weights: what schedules and Adam's corrections count */
    int64_t waiting; /* batches gathered for the next update, fewer than .accumulate_steps */
    double waiting_samples; /* in them */
    /* With KOLO_MIXED_FP16, else 1 and 0: */
    double loss_scale; /* what the mean loss is multiplied by on the way back */
    double sample_scale; /* what a sample's is: the same in all batches of an update */
    int64_t good; /* updates since it changed last */
} kolo_counters;

/* As a training begins. */
static inline kolo_counters kolo_counters_start(const kolo_model *model)
{
    bool half = model->settings.precision == KOLO_MIXED_FP16;
    return (kolo_counters){.loss_scale = half ? 0x1p15 : 1, .sample_scale = 1}; /* Keras's */
}

/* Arrays as the stream's kernels reach them. [weight_count] each, but for the numbers: [parameter_count]. */
typedef struct kolo_replica_arrays {
    float *weights, *gradient, *waiting, *slots[KOLO_OPTIMIZER_SLOTS], *numbers;
} kolo_replica_arrays;

struct kolo_replica {
    kolo_trainer *trainer;
    int index; /* among this process's */
    kolo_comm *local, *group; /* the replicas of this process; those of all ranks if distributed, else local again */
    kolo_comm *comm; /* over the group, for memory of the stream; NULL: it has not been asked for */
    kolo_stream *stream; /* of its first device; it outlives the engine */
    kolo_engine *engine;
    kolo_reduction
        *tree; /* of its microbatches' gradients: its own, or the trainer's where replicas share their weights */
    /* The host's, canonical, [weight_count] each. All but the gradient are replica 0's where replicas share them: */
    float *weights, *gradient, *slots[KOLO_OPTIMIZER_SLOTS];
    float *numbers; /* [parameter_count], the optimizer's own: kind->number */
    float *waiting; /* sum of the gradients of counters.waiting batches; NULL: every batch updates. Its own samples'
                       alone, in deterministic mode the group's */
    kolo_replica_arrays there;
    kolo_span *spans; /* [parameter_count] */
    kolo_update_job job;
    bool by_host; /* the host updates, since the device lacks the optimizer's rule */
    /* Of the step at hand: */
    double samples; /* of the batch, over all members; whoever changes the totals' says of how many the update is */
    bool complete; /* it ends a group of .accumulate_steps */
    bool agreed; /* its gradient is all members', or is going to be: there is but one */
    bool summed; /* its gradient is in `gradient`, where a strategy may have changed it; */
    bool collected; /* in there.gradient; */
    bool told; /* its totals are there, where a strategy may look at them */
    bool began; /* updates have been enqueued: what they do for the first time is done */
    /* What a stream of another memory keeps of the loss's scale: loss_scaling.c */
    kolo_scaling *scaling; /* the stream's; NULL: the loss is not scaled */
    kolo_scaling known; /* what the counters have of it */
    bool placed; /* it is the stream's that counts, else the counters are to become it */
    int64_t tries; /* updates that were enqueued; those the host does not know about: tries - known.tried */
    kolo_totals own; /* of its own samples of the last step */
    kolo_totals totals; /* the same; after an allreduce the group's */
    kolo_counters counters;
    kolo_timings timings; /* of this fit; more of slicing is in the engine and the feeds */
    kolo_feed *feed; /* the device's memory for samples, where it has some */
};

/* arrays.c. The host's arrays, and zeros in them; where the trainer keeps one set of weights, those of replica 0. */
kolo_status kolo_replica_open(kolo_trainer *trainer, int index);
void kolo_replica_close(kolo_replica *replica);
/* An engine for microbatches of that size; arrays and state stay. */
kolo_status kolo_replica_open_engine(kolo_replica *replica, int microbatch, int threads, sem_t *gate);
void kolo_replica_close_engine(kolo_replica *replica);
/* The host's arrays become the stream's and the weights are packed; and back. Weights alone, or with the optimizer's
 * state. */
kolo_status kolo_replica_store(kolo_replica *replica, bool state);
kolo_status kolo_replica_fetch(kolo_replica *replica, bool state);
kolo_status kolo_replica_is_finite(kolo_replica *replica, bool *finite);
/* The weights as they are on the stream are packed; a part of them where replicas share them. */
kolo_status kolo_replica_pack_weights(kolo_replica *replica);
/* The host's gradient becomes that of the stream, and back; waits. */
kolo_status kolo_replica_store_gradient(kolo_replica *replica);
kolo_status kolo_replica_fetch_gradient(kolo_replica *replica);
/* Whose arrays it updates: itself, or replica 0 where they are shared. */
kolo_replica *kolo_replica_owner(kolo_replica *replica);

/* compute.c. kolo_engine_attach(); from then on the counters count, which somebody may have changed. */
kolo_status kolo_replica_attach(kolo_replica *replica, const kolo_data *data, int64_t samples, int64_t wanted);
/* Totals of all steps so far that were not told yet, waited for; over all members. The counters are exact then, which
 * with a loss scale they need not be after a step, unless trainer->exact. */
kolo_status kolo_replica_settle(kolo_replica *replica);
/* Totals that have arrived become the replica's; told already: nothing. wait: all that were given. */
kolo_status kolo_replica_tell_totals(kolo_replica *replica, bool wait);
/* Whether the batch at hand ends a group of .accumulate_steps. */
bool kolo_replica_completes(const kolo_replica *replica);
/* What the update after this batch takes, if there is one. */
kolo_step_parameters kolo_replica_numbers(const kolo_replica *replica);

/* reduce.c. The gradients of its microbatches, added up, in there.gradient. */
kolo_status kolo_replica_collect(kolo_replica *replica);
/* there.gradient joins those of the batches before it; when the group of batches is complete it is their sum. */
kolo_status kolo_replica_accumulate(kolo_replica *replica);
/* Microbatches the stream's comm before the group closes; the next sum asks anew. */
void kolo_replica_part(kolo_replica *replica);
/* Opens it, if it is not open. */
kolo_status kolo_replica_join(kolo_replica *replica);
/* Waits for all replicas of the process that run; or for those that weights are shared with, if any. */
kolo_status kolo_replica_wait(kolo_replica *replica);
kolo_status kolo_replica_meet(kolo_replica *replica);

/* loss_scaling.c; all do nothing where the loss is not scaled. */
kolo_status kolo_replica_open_scaling(kolo_replica *replica);
/* Before a step's numbers are made, which need to be told this of a batch of so many samples. */
kolo_status kolo_replica_prepare_scaling(kolo_replica *replica);
void kolo_replica_tell_scaling(const kolo_replica *replica, int64_t batch_samples,
                               kolo_step_parameters *step_parameters);
/* Totals have arrived: the counters become what they were when that step began, as far as that is news; or what they
 * are now, which waits if there is anything to learn. */
void kolo_replica_scaling_arrived(kolo_replica *replica);
kolo_status kolo_replica_learn_scaling(kolo_replica *replica);

static inline const kolo_stream_kind *kolo_replica_streams(const kolo_replica *replica)
{
    return replica->engine->streams;
}

#endif
