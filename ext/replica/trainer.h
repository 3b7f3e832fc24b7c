/* A trainer: the replicas of a model and what they share. It stays open from one kolo_fit() to the next. */
#ifndef KOLO_REPLICA_TRAINER_H
#define KOLO_REPLICA_TRAINER_H

#include "replica/replica.h"

typedef struct kolo_workers kolo_workers;
typedef struct kolo_overlap kolo_overlap;
typedef struct kolo_autotune kolo_autotune;

struct kolo_trainer {
    kolo_model *model;
    int count; /* replicas in this process */
    int running; /* replicas that compute: all, or 1 that computes for all (kolo_replicas_together()) */
    int microbatch;
    kolo_weight_placement weight_placement;
    int updater; /* KOLO_WEIGHTS_CENTRAL: the replica that updates the weights */
    kolo_stream *parameter_stream; /* KOLO_WEIGHTS_CENTRAL: the stream of the update; NULL: the updater's stream */
    int64_t steps; /* steps of this fit */
    bool apart; /* replicas 1 … drew weights of their own (.initial_sync = false), which kolo_trainer_store() keeps */
    kolo_workers *workers; /* workers.h; NULL: the strategy has none */
    kolo_feed *feed; /* gathers the process's samples ahead of the step; NULL: none */
    kolo_replica *replicas;
    kolo_comm *ranks; /* kolo_model_ranks(), with the .comm of kolo_distributed() if there is one; NULL: not open */
    kolo_team *team; /* one member per running replica; member 0 is the calling thread, the one that communicates with
                        other ranks */
    sem_t gate; /* counts the cores of the process */
    bool gated;
    kolo_reduction *tree; /* sums the gradients of this process's replicas: in the backend's layout where replicas
                             share the weights; else canonical on the host, used in deterministic mode only */
    kolo_overlap *overlap; /* overlap.h; NULL: gradients are summed over the ranks after the backward pass */
    int64_t bucket_bytes; /* overrides .bucket_bytes: the size that autotune.h tries or has chosen; 0: none */
    kolo_autotune *autotune; /* autotune.h; NULL: KOLO_AUTOTUNE is not set, or nothing was trained yet */
    kolo_reduction *totals_tree; /* KOLO_WEIGHTS_SHARED: sums their totals */
    float *sum; /* [weight_count], KOLO_WEIGHTS_COPIED in deterministic mode: the canonical sum that replica 0 made for
                   all replicas */
    kolo_totals sum_totals; /* the totals that replica 0 summed for all replicas */
    int64_t batch_microbatches; /* microbatches of the current step's batch */
    bool exact; /* each step returns its own totals; false: those that were read back (kolo_trainer_settle()) */
    const kolo_data *data; /* the data of the current fit */
    uint64_t seed; /* the same on all ranks */
    kolo_totals local_totals; /* totals of this process's samples in the last step */
    bool warned_untrained; /* kolo_warn_untrained() has warned */
};

/* Opens the model's trainer if there is none. A new trainer has the start values of the optimizer's state, and no open
 * engine. */
kolo_status kolo_trainer_open(kolo_model *model);
/* Opens the model's trainer if there is none, and engines for this microbatch size. The optimizer's state stays.
 * Copies the model's weights to the replicas. kolo_model_meet() comes before. */
kolo_status kolo_trainer_prepare(kolo_model *model, int microbatch);
void kolo_trainer_close(kolo_trainer **trainer); /* takes NULL */

/* trainer_feeds.c. The strategy and `feeding` decide which feeds bring samples to the replicas. Opens them for batches
 * of at most `samples` samples over all ranks; begins and ends an epoch; closes them. */
typedef struct kolo_feeding {
    kolo_feed_kind kind;
    int capacity, threads;
} kolo_feeding;
kolo_status kolo_trainer_open_feeds(kolo_trainer *trainer, kolo_feeding feeding, int64_t samples);
kolo_status kolo_trainer_begin_feeds(kolo_trainer *trainer, const kolo_epoch_plan *plan, int number);
void kolo_trainer_end_feeds(kolo_trainer *trainer);
void kolo_trainer_close_feeds(kolo_trainer *trainer);
void kolo_trainer_reset_timings(kolo_trainer *trainer);

/* Open and close the groups of replicas and ranks. A step opens them if they are closed. */
kolo_status kolo_trainer_open_groups(kolo_trainer *trainer);
void kolo_trainer_close_groups(kolo_trainer *trainer);
/* trainer_step.c, down to kolo_trainer_attach(). */
/* Runs one step of the model's strategy on every replica. After KOLO_INTERRUPTED or a failure the groups are opened
 * anew. On an asynchronous stream, unless trainer->exact, totals appear in replicas[0].totals and trainer->local_totals
 * some steps later. kolo_trainer_settle() waits for the rest of them. */
kolo_status kolo_trainer_step(kolo_trainer *trainer, const kolo_batch *batch);
/* loss_scaling.c. After a step under KOLO_WEIGHTS_CENTRAL: gives all replicas the loss scaling of the one that updates,
 * since only its stream knows whether it skipped the update. */
kolo_status kolo_trainer_share_scaling(kolo_trainer *trainer);
kolo_status kolo_trainer_settle(kolo_trainer *trainer);
/* A replica's part of it. */
kolo_status kolo_replica_step(kolo_replica *replica, const kolo_batch *batch);
/* Opens the groups anew after a failed step: some members are in collectives that the others will never call. Returns
 * `status`, with its failure. */
kolo_status kolo_trainer_renew(kolo_trainer *trainer, kolo_status status);
/* From now on steps use this data set, in batches of at most `samples` samples; `wanted` samples are used in all. The
 * caller calls it again whenever the data may have changed. */
kolo_status kolo_trainer_attach(kolo_trainer *trainer, const kolo_data *data, int64_t samples, int64_t wanted);

/* Waits until no stream reads the memory of a fit any more: the order of the samples, and what the feeds gather. A
 * replica that has had no batch may still have copies in its stream. A failure there has been told before, or comes
 * with the next call. */
void kolo_trainer_wait_for_streams(kolo_trainer *trainer);
/* The first copies the weights of replica 0, or of the centre, to the model, the second the model's weights to every
 * replica. The third copies replica 0's weights and optimizer state to the host's arrays. */
kolo_status kolo_trainer_fetch(kolo_trainer *trainer);
kolo_status kolo_trainer_store(kolo_trainer *trainer);
kolo_status kolo_trainer_fetch_state(kolo_trainer *trainer);
/* Whether all weights of replica 0, or of the centre, are finite. They are not copied to the host. */
kolo_status kolo_trainer_is_finite(kolo_trainer *trainer, bool *finite);
/* Copies replica 0's optimizer state and counters, which a checkpoint holds, to every replica. In deterministic mode it
 * copies the accumulated gradients, too, since they are the group's sum. Otherwise each replica's accumulated gradients
 * are a part of the sum: only replica 0 keeps them, and those of the other replicas become zero. */
kolo_status kolo_trainer_share_state(kolo_trainer *trainer);

/* Allocates zeros on the host; `what` names them in the failure's message. */
kolo_status kolo_allocate_zeros(int64_t count, const char *what, float **array);
/* Sets replica->local_totals to the totals in the tree that all replicas of the process share. */
void kolo_replica_set_totals(kolo_replica *replica);
/* The sum of the gradients of the replica's shard, in the backend's layout; NULL: the shard was empty. */
kolo_status kolo_replica_nodes_sum(kolo_replica *replica, const float **sum);

/* The model's strategy; the number of its replicas in this process. */
const kolo_strategy_kind *kolo_model_strategy(const kolo_model *model);
int kolo_model_replicas(const kolo_model *model);
/* members.c. The ranks that train together tell each other how many replicas each of them has. All of them call it,
 * before the first step of each training. Closes the groups of a trainer if the numbers have changed. */
kolo_status kolo_model_meet(kolo_model *model);
/* The number of replicas of all ranks, and the number of this rank's first one among them. Before the ranks have met,
 * all are taken to have the same number. */
int kolo_model_members(const kolo_model *model);
int kolo_model_first_member(const kolo_model *model);
/* The number of replicas under a strategy that the model is not compiled with yet. Each replica of a placed model takes
 * all devices that the model names. */
kolo_status kolo_replicas_under(const kolo_model *model, const kolo_strategy *strategy, int *count);
/* Whether one replica computes for all replicas of the process: they share their weights, there are fewer threads than
 * replicas, and nothing in the model or the strategy depends on which replica a sample belongs to. All threads then
 * take microbatches of the process's samples. */
bool kolo_replicas_together(const kolo_model *model);
/* Whether all ranks train together. */
bool kolo_model_distributed(const kolo_model *model);
/* Whether it would train with them if there were any. */
bool kolo_model_joins_ranks(const kolo_model *model);
/* The group that a model's ranks train in: the world if distributed, else this rank alone. */
kolo_comm *kolo_model_ranks(const kolo_model *model);

#endif
