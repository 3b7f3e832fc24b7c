/* A replica on an accelerator: its arrays, and the parts of a step (strategy.h), on the device.
 *
 * What the trainer holds of such a replica (weights, gradient, slots) are copies of the host's, which are made when
 * somebody asks: kolo_trainer_fetch(), kolo_trainer_fetch_state(). An optimizer whose rule the device has not (a
 * learner's own) is computed on the host, and then it is those that count. Read engine/queued.h first.
 */
#ifndef KOLO_REPLICA_QUEUED_REPLICA_H
#define KOLO_REPLICA_QUEUED_REPLICA_H

#include "engine/queued.h"
#include "training/trainer.h"

typedef struct kolo_queued_state {
    float *gradient, *slots[KOLO_OPTIMIZER_SLOTS], *numbers, *waiting; /* the device's, as kolo_replica has them */
    kolo_span *spans; /* [parameter_count] */
    void *together;   /* the accelerator's group; NULL: sums are made on the host */
    bool asked;       /* whether there is one */
    kolo_update_job job;
    bool on_host;     /* the host updates */
    bool complete;    /* the batch at hand ends a group of .accumulate_steps */
    kolo_graph_entry *entry;  /* of the step at hand, and its samples over all members: */
    double samples;
    bool agreed; /* its gradient is all members', or is going to be: there is but one */
    bool told;   /* its totals are the replica's already: a strategy of a learner's own may look at them */
    bool began;  /* updates have been given: what they do for the first time is done */
    kolo_scaling *scaling; /* the device's; NULL: the loss is not scaled, or the host updates */
    kolo_scaling known;    /* what the replica's counters have of it */
    bool placed;   /* it is the device's that counts, else the counters are to become it */
    int64_t tries; /* updates that were given; those that the host does not know about: tries - known.tried */
} kolo_queued_state;

kolo_status kolo_queued_replica_open(kolo_replica *replica);
void kolo_queued_replica_close(kolo_replica *replica);
/* Microbatches the accelerator's group before the host's closes; the next sum joins anew. */
void kolo_queued_replica_part(kolo_replica *replica);

/* kolo_queued_attach(); from then on the replica's counters count, which somebody may have changed. */
kolo_status kolo_queued_replica_attach(kolo_replica *replica, const kolo_data *data, int64_t samples, int64_t wanted);

/* The host's arrays become the device's, and back; weights alone, or with the optimizer's state. */
kolo_status kolo_queued_replica_store(kolo_replica *replica, bool state);
kolo_status kolo_queued_replica_fetch(kolo_replica *replica, bool state);
/* Whether the device's weights are. */
kolo_status kolo_queued_replica_is_finite(kolo_replica *replica, bool *finite);

/* The parts of a step. */
kolo_status kolo_queued_replica_compute(kolo_replica *replica, const kolo_shard *shard);
kolo_status kolo_queued_replica_allreduce(kolo_replica *replica);
kolo_status kolo_queued_replica_update(kolo_replica *replica);
/* Its own sum goes into the host's replica->gradient, which then is what the update takes. Waits. */
kolo_status kolo_queued_replica_gradient(kolo_replica *replica);

/* Totals of all steps so far that were not told yet, waited for; over all members. The counters are exact then, which
 * with a scaling they need not be after a step, unless trainer->exact. */
kolo_status kolo_queued_replica_settle(kolo_replica *replica);

/* ---- queued_scaling.c: for the above. All do nothing where there is no scaling. ---- */

kolo_status kolo_queued_scaling_open(kolo_replica *replica);
/* Before a step's step parameters is made, which needs to be told this of a batch of so many samples. */
kolo_status kolo_queued_scaling_prepare(kolo_replica *replica);
void kolo_queued_scaling_tell(const kolo_replica *replica, int64_t batch_samples,
                              kolo_step_parameters *step_parameters);
/* Totals have arrived: the counters become what they were when that step began, as far as that is news; */
void kolo_queued_scaling_arrived(kolo_replica *replica);
/* or what they are now. Waits, if there is anything to learn. */
kolo_status kolo_queued_scaling_learn(kolo_replica *replica);

#endif
