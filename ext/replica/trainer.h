/* A trainer: the replicas of a model and what they share, from one kolo_fit to the next. */
#ifndef KOLO_REPLICA_TRAINER_H
#define KOLO_REPLICA_TRAINER_H

#include "replica/replica.h"

struct kolo_trainer {
    kolo_model *model;
    int count; /* replicas in this process */
    int running; /* of them that compute: all, or the first, for all: kolo_replicas_together() */
    int microbatch;
    kolo_weight_placement weight_placement;
    int updater; /* KOLO_WEIGHTS_CENTRAL: the replica that does it, */
    kolo_stream *parameter_stream; /* on which it does so; NULL: its own */
    int64_t steps; /* of this fit */
    bool apart; /* replicas began with other weights than the model's */
    kolo_feed *feed; /* where the process's samples are gathered ahead of the step, or NULL */
    kolo_replica *replicas;
    kolo_team *team; /* a member a replica that runs; member 0, the caller, is the one that speaks to other ranks */
    sem_t gate; /* cores of the process */
    bool gated;
    kolo_reduction *tree; /* where gradients of this process's replicas are added up: of the engine's kind where
                        replicas share the weights, else canonical ones of the host, in deterministic mode */
    kolo_reduction *totals_tree; /* and their totals, KOLO_WEIGHTS_SHARED */
    float *sum; /* [weight_count], the canonical sum that replica 0 made for all, likewise */
    kolo_totals sum_totals;
    int64_t batch_microbatches; /* of the step that runs */
    bool exact; /* totals are those of the step that ran, else of what has arrived: kolo_trainer_settle() */
    const kolo_data *data; /* of the fit that runs */
    uint64_t seed; /* the same on all ranks */
    kolo_totals own; /* this process's samples of the last step */
};

/* Opens it if there is none: the optimizer's state is zero. Ready for no microbatch size yet. */
kolo_status kolo_trainer_open(kolo_model *model);
/* Opens it if there is none, or makes it ready for another microbatch size; the optimizer's state stays. Replicas take
 * the model's weights. */
kolo_status kolo_trainer_prepare(kolo_model *model, int microbatch);
void kolo_trainer_close(kolo_trainer **trainer); /* takes NULL */

/* trainer_feeds.c: how samples come to the replicas, by the strategy and `feed`; the batches of an epoch are begun and
 * ended. Batches of at most `samples`, over all ranks. */
typedef struct kolo_feeding {
    kolo_feed_kind kind;
    int capacity, threads;
} kolo_feeding;
kolo_status kolo_trainer_open_feeds(kolo_trainer *trainer, kolo_feeding feeding, int64_t samples);
kolo_status kolo_trainer_begin_feeds(kolo_trainer *trainer, const kolo_epoch_plan *plan, int number);
void kolo_trainer_end_feeds(kolo_trainer *trainer);
void kolo_trainer_close_feeds(kolo_trainer *trainer);
void kolo_trainer_reset_timings(kolo_trainer *trainer);

/* One step of the model's strategy on every replica. After KOLO_INTERRUPTED or a failure the groups are made anew.
 * Totals that come later than their step (where the stream is asynchronous, unless trainer->exact) are told by a step
 * after it, or here, as replicas[0].totals and own. */
kolo_status kolo_trainer_step(kolo_trainer *trainer, const kolo_batch *batch);
kolo_status kolo_trainer_settle(kolo_trainer *trainer);
/* The data that steps are of, from now on, in batches of at most so many samples, `wanted` of them in all; whenever
 * they may be others than before. */
kolo_status kolo_trainer_attach(kolo_trainer *trainer, const kolo_data *data, int64_t samples, int64_t wanted);

/* Replica 0's weights become the model's; the model's become every replica's. Where they lie on a device, the host's
 * copies of the optimizer's state are brought up to date by the third. */
kolo_status kolo_trainer_fetch(kolo_trainer *trainer);
kolo_status kolo_trainer_store(kolo_trainer *trainer);
kolo_status kolo_trainer_fetch_state(kolo_trainer *trainer);
/* Whether replica 0's weights are numbers, and none is infinite. They stay where they lie. */
kolo_status kolo_trainer_is_finite(kolo_trainer *trainer, bool *finite);
/* Replica 0's optimizer state becomes every replica's, as a checkpoint holds it. Gradients that wait for an update
 * become everyone's in deterministic mode, else stay with replica 0 alone: they are its part of the sum. */
kolo_status kolo_trainer_share_state(kolo_trainer *trainer);

/* Zeros of the host; what: of a failure. */
kolo_status kolo_allocate_zeros(int64_t count, const char *what, float **array);
/* Of a tree that all replicas of the process share: what is in it becomes this one's own totals. */
void kolo_replica_own_totals(kolo_replica *replica);
/* The sum of the gradients that the replica's share left, as the backend has them; NULL where it had no samples. */
kolo_status kolo_replica_nodes_sum(kolo_replica *replica, const float **sum);

/* Which strategy, how many replicas in this process, and whether all ranks train together. */
const kolo_strategy_kind *kolo_model_strategy(const kolo_model *model);
int kolo_model_replicas(const kolo_model *model);
/* How many a strategy that the model is not compiled with yet would make. A model that is placed on several devices
 * takes as many for each replica. */
kolo_status kolo_replicas_under(const kolo_model *model, const kolo_strategy *strategy, int *count);
/* Whether these replicas are computed as one: they share one memory, there are fewer cores than replicas, and nothing
 * in the model or the strategy asks which sample is whose. All cores then take microbatches of the process's samples.
 */
bool kolo_replicas_together(const kolo_model *model);
bool kolo_model_distributed(const kolo_model *model);
/* The group that a model's ranks train in: the world if distributed, else this rank alone. */
kolo_comm *kolo_model_ranks(const kolo_model *model);

#endif
