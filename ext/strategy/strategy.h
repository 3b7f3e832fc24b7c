/* The interface of a distribution strategy, which decides how many replicas of a model train and when they exchange
 * gradients or weights.
 *
 * Each replica has a thread, which calls the strategy's step() for every batch. All replicas get the same batch.
 * (Exception: with .shares_compute one replica may compute for all.) mirrored.c shows synchronous training as a step()
 * of a few lines.
 *
 * The replicas of a strategy with .exchange or .exchange_all are workers. A worker trains on batches of its own. From
 * time to time it exchanges weights with the centre: one more set of weights, which is the model that is validated,
 * saved and returned. downpour.c shows an asynchronous strategy as an exchange() of a few lines.
 *
 * A custom strategy is the same struct: kolo_compile(.strategy = kolo_strategy_of(&mine)) uses it.
 */
#ifndef KOLO_STRATEGY_H
#define KOLO_STRATEGY_H

#include "backend/weight_placement.h"
#include "comm/comm.h"
#include "data/batch.h"
#include "losses/totals.h"

typedef struct kolo_replica kolo_replica;

/* The arrays of a worker and of the centre in an exchange. Each array is [count], on the host. */
typedef struct kolo_exchange {
    int number; /* the worker's, from 0 */
    int64_t count;
    float *center;
    float *weights;    /* the worker's */
    float *start;      /* the worker's weights after its last exchange. With .writes_start step() writes it */
    int batches; /* that the worker has trained on since its last exchange; 0 is possible in exchange_all() only */
    int64_t staleness; /* exchanges of other workers since its last one. exchange_all(): 0 */
} kolo_exchange;

struct kolo_strategy_kind {
    /* Required: name, replicas and step. The others may be left out. */
    const char *name; /* "mirrored"; of Kolo's own kinds the name in KOLO_STRATEGIES, by which --strategy finds it */
    /* The number of replicas that this process runs. For a model that is placed on several devices,
     * kolo_replicas_under() divides it by their number. Fails with a message if the options are invalid. */
    kolo_status (*replicas)(const kolo_strategy *strategy, int *count);
    /* One training step of one replica. batch->step counts the steps since kolo_compile(). A failure ends the fit on
     * all replicas. */
    kolo_status (*step)(kolo_replica *replica, const kolo_batch *batch);
    /* Where the strategy wants the weights of several replicas to be kept. NULL: KOLO_WEIGHTS_COPIED. */
    kolo_weight_placement (*weight_placement)(const kolo_strategy *strategy);
    /* The device that keeps the weights under KOLO_WEIGHTS_CENTRAL: "host", "cpu:0". NULL: the option .parameter_device
     * names it. */
    const char *(*parameter_device)(const kolo_strategy *strategy);
    /* The strategy always has one replica, however many devices there are. */
    bool one_replica;
    /* All ranks train together, with or without kolo_distributed(). .batch_size is that of all ranks, they begin with
     * rank 0's weights, and report the metrics of all. */
    bool joins_ranks;
    /* Any thread of the process may compute microbatches of any replica, provided that the replicas share the weights:
     * step() uses no result of one replica's samples alone. */
    bool shares_compute;
    /* Every step() calls kolo_replica_compute() and then kolo_replica_allreduce() or kolo_replica_reduce(), with
     * nothing in between that needs the gradient: parts of it may be summed over the ranks while others are still
     * computed. */
    bool sums_every_step;
    /* Every step() calls kolo_replica_compute() and then kolo_replica_update(), with nothing in between but
     * kolo_replica_allreduce() or kolo_replica_reduce(): a GPU whose replica is alone in its group does both as one
     * captured graph. */
    bool updates_every_step;
    /* step() does not call kolo_replica_totals(), so a GPU may deliver the totals some steps later. */
    bool totals_may_lag;

    /* For workers. step() is then given a batch of the replica alone: kolo_worker_step() is the usual one.
     * exchange() is called when a worker has trained on .window batches, and at the end of an epoch. No other worker
     * exchanges at the same time, but the others go on training. Under several ranks it runs on rank 0. With .servers
     * it is called for each part of the weights, on the server's rank, and nobody exchanges with this part. */
    void (*exchange)(const kolo_strategy *strategy, const kolo_exchange *mine);
    /* Instead of exchange(): an exchange of all workers at once, for which they wait for each other. */
    void (*exchange_all)(const kolo_strategy *strategy, const kolo_exchange *workers, int count);
    int window; /* the default of the option .window, in batches; 0: an epoch */
    bool ensemble; /* the workers' weights after an exchange are models of their own, the members of an ensemble */
    bool has_memory; /* step() uses kolo_worker_memory().memory */
    bool writes_start; /* step() writes kolo_worker_memory().start, and exchanges read it */
    /* The optimizer updates the centre before exchange(), with the gradient of the worker's last step(), which collects
     * it by kolo_replica_gradient() and updates nothing. */
    bool updates_center;
    /* Which of the numbers in kolo_strategy it reads; the others are refused. */
    bool reads_rho; /* .rho and .learning_rate */
    bool reads_momentum; /* .momentum */
};

/* options.c. Fails with a message if the strategy is given an option that its kind has no use for, or if its kind lacks
 * a part that another of its parts needs. */
kolo_status kolo_strategy_check(const kolo_strategy *strategy);

/* For strategies of several devices (devices.c): checks .devices, .device_names, .slicing and .initial_sync, and counts
 * the devices that they choose. Fails with a message if they are invalid. It can be a kind's .replicas. */
kolo_status kolo_strategy_devices(const kolo_strategy *strategy, int *count);

/* For strategies of workers (workers.c): checks .workers and the options of exchanges, and counts the workers. Fails
 * with a message if they are invalid. It can be a kind's .replicas. */
kolo_status kolo_strategy_workers(const kolo_strategy *strategy, int *count);
/* Whether the replicas of this kind are workers. */
static inline bool kolo_strategy_has_workers(const kolo_strategy_kind *kind)
{
    return kind->exchange || kind->exchange_all;
}

/* The strategy's kind, or that of the default strategy if it has none. */
const kolo_strategy_kind *kolo_strategy_kind_of(const kolo_strategy *strategy);
/* The strategy of the option --devices: for 0 devices the default. */
kolo_strategy kolo_strategy_for_devices(int devices);

/* ---- The parts of a step ---- */

/* Forward and backward over this replica's shard of the batch. */
kolo_status kolo_replica_compute(kolo_replica *replica, const kolo_batch *batch);
/* Sums the gradient and the totals over the replica's group: all replicas of the process, with kolo_distributed() those
 * of all ranks. In deterministic mode the sums have the same bits for any number of members. */
kolo_status kolo_replica_allreduce(kolo_replica *replica);
/* With KOLO_WEIGHTS_CENTRAL the same, but only the replica that updates the weights gets the sum of the gradients.
 * Otherwise, in deterministic mode, and over several ranks it is kolo_replica_allreduce(). */
kolo_status kolo_replica_reduce(kolo_replica *replica);
/* One step of the optimizer with the mean gradient: the replica's gradient, divided by the number of samples that it is
 * a sum over. These are the group's after an all-reduce, otherwise the replica's own, unless step() has changed
 * kolo_replica_totals()->samples. A replica without samples does not update. */
kolo_status kolo_replica_update(kolo_replica *replica);

/* ---- The parts of a worker's training (replica/workers.c) ---- */

/* Computes the batch and updates the worker's weights with its mean gradient. */
kolo_status kolo_worker_step(kolo_replica *replica, const kolo_batch *batch);
/* The worker's own arrays between its exchanges, [weights] each. memory: for the strategy's use, zeros at first; NULL
 * without .has_memory. start: the worker's weights after its last exchange, until step() writes something else there.
 */
typedef struct kolo_worker_arrays {
    float *start, *memory;
} kolo_worker_arrays;
kolo_worker_arrays kolo_worker_memory(kolo_replica *replica);
/* The worker's number, from 0. */
int kolo_worker_number(const kolo_replica *replica);

/* ---- Access to gradient, weights and totals, for strategies that keep copies and synchronize them differently ---- */

/* The options that the strategy was given. */
const kolo_strategy *kolo_replica_strategy(const kolo_replica *replica);
/* The replica's group. */
kolo_comm *kolo_replica_comm(kolo_replica *replica);
/* The gradient, [weights], summed over the replica's samples. */
kolo_status kolo_replica_gradient(kolo_replica *replica, float **gradient);
/* The weights, [weights] on the host. For a replica on a GPU they are a copy that this call makes: call it again after
 * an update. After changing the weights call kolo_replica_pack(). */
float *kolo_replica_weights(kolo_replica *replica);
kolo_status kolo_replica_pack(kolo_replica *replica);
/* The number of weights. */
int64_t kolo_replica_count(const kolo_replica *replica);
/* Loss, metrics and number of samples of the last compute: of this replica's shard, after kolo_replica_allreduce() or
 * _reduce() of the group. If step() calls neither, the library sums them over the group when step() returns: fit
 * reports these sums, and stops by them. */
kolo_totals *kolo_replica_totals(kolo_replica *replica);

#endif
