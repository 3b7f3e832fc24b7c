/* Sections 6 and 7 of kolo.h: strategies; compile, fit, evaluate, predict. Included by kolo.h: read that first. */
#ifndef KOLO_TRAINING_H
#define KOLO_TRAINING_H

#include "kolo.h"
#include "kolo_callbacks.h"

/* ------------------------------------------------------------------------------------------- 6 strategies */

typedef struct kolo_strategy_kind kolo_strategy_kind; /* strategy/strategy.h; one of your own is the exercise */

/* Kolo's own strategies. An entry X(name) declares kolo_name_kind, which ext/strategy/name.c defines, and makes `name` a
 * choice of --strategy. */
#define KOLO_STRATEGIES(X)                                                                                             \
    X(one_device)                                                                                                      \
    X(mirrored)                                                                                                        \
    X(central_storage)                                                                                                 \
    X(multi_worker_mirrored)                                                                                           \
    X(parameter_server)                                                                                                \
    X(downpour)                                                                                                        \
    X(adag)                                                                                                            \
    X(dynsgd)                                                                                                          \
    X(easgd)                                                                                                           \
    X(async_easgd)                                                                                                     \
    X(async_eamsgd)                                                                                                    \
    X(averaging)                                                                                                       \
    X(ensemble)                                                                                                        \
    X(local_sgd)
#define KOLO_DECLARE_STRATEGY_(name) extern const kolo_strategy_kind kolo_##name##_kind;
KOLO_STRATEGIES(KOLO_DECLARE_STRATEGY_)
#undef KOLO_DECLARE_STRATEGY_

typedef enum kolo_slicing {
    KOLO_SLICE_ON_HOST = 1, /* each device is given its slice of the batch: the default */
    KOLO_SLICE_ON_DEVICE    /* the whole batch is copied to each device, which takes its slice there */
} kolo_slicing;
#define KOLO_DEVICE_NAMES_MAX 64

typedef struct kolo_strategy {
    const char *_;
    const kolo_strategy_kind *kind;
    kolo_guard *guard;
    int devices; /* in all: a replica on each, or on as many as its layers are placed on (.device of a layer); default:
                    every device of this process. Of GPUs ranks of a host take the first
                    so many, the next so many, … if there are enough for all */
    const char *device_names[KOLO_DEVICE_NAMES_MAX]; /* these alone: {"cpu:0", "cpu:2"} */
    const char *parameter_device; /* "host" or "cpu:0": the weights and the optimizer's state are kept there, once; all
                                     gradients are summed there, and every device reads the weights from there. Default:
                                     devices that share a memory share the weights in it, add their gradients up as they
                                     come, and update a share each. One device alone keeps them anyway */
    kolo_slicing slicing;
    bool last_takes_remainder; /* microbatches of the batch are dealt by integer division, the rest to the last device;
                                  default: as evenly as they go */
    int initial_sync; /* false: each device begins with weights of its own seed, with a warning, and the
                         model becomes device 0's; of no effect with .parameter_device. Default: equal */
    bool synchronized_optimizer; /* gradients are averaged by an all-reduce, and each device makes the whole update of a
                                    copy of its own; with .parameter_device the all-reduce comes before its update */
    bool staging; /* each device has memory for two batches: the next is copied while one computes */

    /* Only for strategies of workers; others refuse them, and a strategy refuses each number that its rule lacks: */
    int workers; /* 1 to 256 threads of each rank, 256 in all, each with a replica; default: a worker on each device.
                    Ranks of other hosts connect to rank 0's by IPv4, if they can at an address in a subnet of their own */
    int window;  /* batches that a worker trains on between two exchanges; default: the strategy's. Not for kolo_ensemble() */
    int servers; /* 1 to the number of weight arrays, default 1: the centre is divided at the borders of arrays among so many
                    servers, with which different workers exchange at the same time. The results do not depend on it. Only
                    where workers exchange one at a time. Over several ranks the servers are spread over them as evenly as
                    they go, beside the workers of these ranks: server i of s is on rank i · ranks / s, so .servers = nodes
                    gives one to each node. Rank 0 keeps the order of exchanges. Under --keep-going the others go on
                    without a dead rank, unless a server was on it: this ends the fit on all ranks. A worker that dies
                    within an exchange may have exchanged with some of the servers only */
    double rho;  /* EASGD: the strength of the pull towards the centre, ρ ≥ 0; default 5 */
    double learning_rate; /* EASGD: the exchange moves worker and centre by α = learning_rate · ρ of their difference;
                             0 ≤ α < 1; default 0.1. The optimizer has a learning rate of its own */
    double momentum;      /* EAMSGD: μ of Nesterov's momentum, 0 ≤ μ < 1; default 0.9 */
    /* The trained weights depend on the order in which asynchronous workers exchange. Default: as it happens, and with
     * .deterministic in turn. At most one of .turns and .replay: */
    const char *turns;  /* the numbers of workers, again and again from the beginning of each epoch: under "0 1 0 1 2"
                           worker 2 exchanges after two exchanges of each of the others. Each worker must have a turn.
                           The k-th exchange of an epoch is of the k-th .window batches */
    const char *replay; /* a file of .record: the same batches and exchanges. They give the same bits if data, .seed
                           and .batch_size are the same: the call does not compare these */
    const char *record; /* kolo_fit() writes the order to this file at its end, as JSON: that of the epochs that were
                           completed, which may be none. {"strategy": "downpour", "workers": 2, "window": 4, "steps": 12,
                           "epochs": [[[0, [0, 2, 4, 6]], [1, [1, 3, 5, 7]], …], …]}: in each epoch's list an exchange is
                           its worker and the batches since that worker's last one. "steps" are the batches of an epoch
                           by all workers */
} kolo_strategy;

/* All on one device: the default. */
#define kolo_one_device() ((kolo_strategy){._ = 0, &kolo_one_device_kind, .devices = 1})
/* A replica on each device; gradients are averaged over all of them before every update. On one device, or where there
 * is none, it is kolo_one_device(). Options: the members of kolo_strategy. Of them only .initial_sync changes the
 * result. Four published parallelisers, and tf_cnn_benchmarks' two ways, in these terms:
 *   kuza55 make_parallel         kolo_central_storage(.slicing = KOLO_SLICE_ON_DEVICE)
 *   fchollet multi_gpu_model     kolo_central_storage(.slicing = KOLO_SLICE_ON_DEVICE, .last_takes_remainder = true)
 *   avolkov1 make_parallel       kolo_central_storage(.last_takes_remainder = true), "cpu:0" for ps_device = '/gpu:0';
 *                                syncopt is .synchronized_optimizer, initsync .initial_sync, enqueue .staging
 *   tf_cnn_benchmarks            --variable_update=parameter_server  kolo_central_storage(.staging = true)
 *                                --variable_update=replicated
 *                                             kolo_mirrored(.synchronized_optimizer = true, .staging = true) */
#define kolo_mirrored(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_mirrored_kind, __VA_ARGS__})
/* The same with the weights on a parameter device, "host" unless .parameter_device says otherwise. */
#define kolo_central_storage(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_central_storage_kind, __VA_ARGS__})
/* kolo_mirrored() over the devices of all ranks, TensorFlow's MultiWorkerMirroredStrategy. It needs no kolo_distributed(),
 * no kolo_broadcast_variables() and no kolo_metric_average(): all ranks begin with rank 0's weights and report the metrics
 * of all. .batch_size is that of all ranks together. Ranks may have different numbers of devices; each device has an equal
 * share of the batch. The ranks are those of kolorun, mpirun or srun, or the processes that TF_CONFIG names (kolo_init). */
#define kolo_multi_worker_mirrored(...)                                                                                \
    ((kolo_strategy){._ = #__VA_ARGS__, &kolo_multi_worker_mirrored_kind, __VA_ARGS__})
#define kolo_strategy_of(...)     ((kolo_strategy){._ = #__VA_ARGS__, __VA_ARGS__})

/* Strategies of workers: each worker is a thread that trains on batches of its own, of .batch_size samples, and
 * exchanges weights with a centre. The model is the centre: it is validated, saved and returned. An epoch ends when the
 * workers together have trained on all batches. A fast worker takes more of them, so no worker waits for a slow one,
 * except where all exchange at once. Under kolo_distributed() the workers are those of all ranks, .workers of
 * each, and rank 0 keeps the centre. Each worker has an optimizer's state of its own, and a schedule counts the batches
 * of all workers. on_train_batch hooks are called before and after batches of worker 0; the number that they are given
 * counts the batches that all workers have trained on. Each kolo_fit() begins with the weights of the centre on all workers;
 * with .resume they go on from their own weights, momentum and optimizer's state, which checkpoints of epochs' ends hold, if
 * strategy and number of workers are the same. After a stop within an epoch the epoch begins anew.
 *
 * In the rules c is the centre, x a worker's weights, p its weights after its last exchange, τ the .window,
 * n the number of workers, and g the mean gradient. Default windows are dist-keras's, unless a source is named. */
/* Each batch: the optimizer updates c with g of the worker's x; x ← c. .window is 1. */
#define kolo_parameter_server(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_parameter_server_kind, __VA_ARGS__})
/* c ← c + (x − p), x ← c; τ = 5. Dean et al. 2012. With many workers it diverges, as published. */
#define kolo_downpour(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_downpour_kind, __VA_ARGS__})
/* c ← c + (x − p) / τ, x ← c; τ = 12. Hermans 2017: accumulated gradient normalization. */
#define kolo_adag(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_adag_kind, __VA_ARGS__})
/* c ← c + (x − p) / (s + 1), x ← c; τ = 5; s: the exchanges of others since the worker's last. Jiang et al. 2017. */
#define kolo_dynsgd(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_dynsgd_kind, __VA_ARGS__})
/* All at once: x ← x' − α(x − c), c ← c + αΣ(x − c), where x' is x after the window's last step, and x before it;
 * τ = 1; α = 0.9 / n unless .learning_rate or .rho is given. Where n · α ≥ 2 it diverges. Zhang, Choromanska, LeCun
 * 2015, equations 5 and 6. */
#define kolo_easgd(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_easgd_kind, __VA_ARGS__})
/* d = α(x − c), x ← x − d, c ← c + d; τ = 32. The same, algorithm 1. */
#define kolo_async_easgd(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_async_easgd_kind, __VA_ARGS__})
/* The same exchange; a step is v ← μv + Δ, x ← x + v, where Δ is what the optimizer adds at x + μv; τ = 32. The same,
 * algorithm 2. */
#define kolo_async_eamsgd(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_async_eamsgd_kind, __VA_ARGS__})
/* All at once: c ← Σx / n, x ← c; τ: an epoch. */
#define kolo_averaging(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_averaging_kind, __VA_ARGS__})
/* An ensemble of n models that never exchange, as dist-keras's EnsembleTrainer has it: each worker begins with the model's
 * weights, and trains on its own share of each epoch's batches, 1/n of them. The model, which is validated, saved and
 * returned, is member 0; kolo_ensemble_…() in section 7 give the others. A further kolo_fit() begins a new ensemble with
 * the weights of member 0. */
#define kolo_ensemble(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_ensemble_kind, __VA_ARGS__})
/* The same as kolo_averaging() with τ = 8. Stich 2019: local SGD. */
#define kolo_local_sgd(...) ((kolo_strategy){._ = #__VA_ARGS__, &kolo_local_sgd_kind, __VA_ARGS__})

/* ---------------------------------------------------------------------- 7 compile, fit, evaluate, predict */

/* Threads. Any thread of a process may call kolo_evaluate, kolo_predict, kolo_test_on_batch, kolo_predict_on_batch,
 * kolo_gradients, kolo_save and kolo_checkpoint_save. Such calls on the same model wait for one another; each computes
 * with all cores. The calls that change a model (kolo_compile, kolo_fit, kolo_train_on_batch, kolo_load,
 * kolo_checkpoint_load) and kolo_profile cannot run at the same time as another thread's call on the model: the later
 * of the two fails at once with a sentence that names the earlier one. Calls that a callback makes belong to the thread
 * of its fit and are allowed. */

typedef enum kolo_precision {
    KOLO_FLOAT32 = 1, /* the default */
    /* Arithmetic in bfloat16, sums and weights in float32. KOLO_UNSUPPORTED on a CPU without AVX-512, and on a GPU with
     * a compute capability below 8.0 (use KOLO_MIXED_FP16 on a V100). */
    KOLO_MIXED_BF16,
    /* Arithmetic in IEEE binary16, sums and weights in float32, with dynamic loss scaling (Micikevicius et al. 2018, as
     * in Keras's LossScaleOptimizer): the gradient of the loss is multiplied by a factor, 2^15 at first, so that small
     * gradients do not vanish. The factor is doubled after 2,000 updates without an overflow. If a gradient overflows,
     * all devices and ranks skip that update, and the factor is halved. Runs on every GPU and every CPU, on a CPU more
     * slowly than KOLO_FLOAT32. */
    KOLO_MIXED_FP16,
    /* Float32, but GPUs of compute capability 8.0 or higher round the operands of matrix products and convolutions to
     * 10 bits of fraction, because their tensor cores multiply such numbers several times as fast. Other GPUs compute
     * as with KOLO_FLOAT32. On a CPU it is KOLO_FLOAT32, bit for bit, and kolo_compile() prints this. */
    KOLO_TF32
} kolo_precision;

#define KOLO_NEW_SEED UINT64_MAX /* .seed: a new one each time */

typedef struct kolo_compile_args {
    const char *_;
    kolo_model *model;
    kolo_guard *guard;
    kolo_optimizer optimizer; /* required for fit */
    kolo_loss loss;           /* required for fit and evaluate */
    kolo_metric metrics[KOLO_METRICS_MAX];
    kolo_strategy strategy;
    kolo_precision precision; /* default KOLO_FLOAT32 */
    const char *backend;  /* "cuda", "onednn", "reference"; default: KOLO_BACKEND, else the fastest that loads */
    uint64_t seed;        /* of weights, order and dropout; default: KOLO_NEW_SEED */
    bool deterministic;   /* the same bits for any number of devices and ranks of the same kind. Only the model and the
                             batch determine the number of microbatches. Small batches have only two of them and gain
                             nothing from more cores */
} kolo_compile_args;

/* Sets how the model will be trained, and draws its weights if they were never set. Compiling again keeps the weights
 * and resets the optimizer's state. The devices that layers name must still exist. On failure nothing has changed. */
#define kolo_compile(...) kolo_compile_at(&(const kolo_compile_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_compile_at(const kolo_compile_args *args, kolo_here here);

/* The cost of data parallelism in the steps of a model's last kolo_fit() (or kolo_train_on_batch()): seconds a device,
 * as the mean over the devices, and bytes, summed over all devices of this process. All zeros before the first step. */
typedef struct kolo_timings {
    int64_t steps;
    double slicing; /* until the device has its samples; copying samples ahead of their step does not count */
    double compute; /* forward and backward pass, including `slicing` */
    double waiting; /* for the other devices, after the device's own gradient is ready */
    double reduce;  /* summing the gradients, without `waiting` */
    double update;  /* until the device has the new weights */
    /* The all-reduces of the gradients over the ranks, waiting for the other ranks included: how long they took, and how
     * long the device had nothing else to do meanwhile. The difference was hidden behind the backward pass. 0 with one
     * rank, in deterministic mode and for workers */
    double communication, exposed;
    int64_t sliced_bytes, reduced_bytes, updated_bytes; /* copied for slicing, reduce and update */
} kolo_timings;
kolo_timings kolo_get_timings(const kolo_model *model);

/* The results of an epoch. loss and the metrics are means over its samples, measured while training with dropout, as in
 * Keras. The val_ values are NaN if the epoch was not validated; accuracy is NaN without that metric. */
typedef struct kolo_epoch {
    double loss, accuracy, val_loss, val_accuracy;
    double seconds;           /* of training, without validation */
    double images_per_second; /* samples trained / seconds, over all ranks */
    int64_t images;           /* samples trained, over all ranks */
    int steps;                /* updates */
    double learning_rate;     /* at the epoch's end */
    double metric[KOLO_METRICS_MAX], val_metric[KOLO_METRICS_MAX]; /* of .metrics in their order, with accuracy */
} kolo_epoch;

typedef struct kolo_history {
    int epochs;
    const kolo_epoch *epoch; /* [epochs] */
    int ranks, devices;      /* devices: replicas on this rank */
    bool stopped;            /* ended by kolo_request_stop() or by a callback, before its last epoch */
    int first_epoch;         /* number of epoch[0], from 0: completed epochs before this fit */
    int metrics;
    char metric_name[KOLO_METRICS_MAX][KOLO_METRIC_NAME]; /* [metrics], "f1_score_weighted" */
    char strategy[32]; /* its name: "mirrored" */
    int workers;       /* of a strategy of workers; 0: it has none */
    double communication, exposed; /* seconds of the whole fit on this rank, as in kolo_timings; 0 with one rank */
} kolo_history;

/* The value with that name of epoch[epoch]: "loss", "f1_score_weighted", "val_accuracy", "seconds",
 * "images_per_second", "images", "steps", "learning_rate". NaN if there is no such epoch or name. */
double kolo_history_get(const kolo_history *history, int epoch, const char *name);
/* A copy that remains valid when the model trains again or is freed; NULL on failure. */
#define kolo_history_copy(history) kolo_history_copy_at(history, KOLO_HERE)
kolo_history *kolo_history_copy_at(const kolo_history *history, kolo_here here);
/* Frees a history from kolo_history_copy() or kolo_history_load(). */
void kolo_history_free(kolo_history **history);

#define KOLO_CLASS_WEIGHTS_MAX 128

typedef enum kolo_feed_kind {
    KOLO_FEED_SYNCHRONOUS = 1, /* the threads that compute gather their samples first */
    KOLO_FEED_QUEUE, /* separate threads gather batches into a queue */
    KOLO_FEED_STAGED /* one separate thread gathers the next batch during a step */
} kolo_feed_kind;

typedef struct kolo_fit_args {
    const char *_;
    kolo_model *model;
    kolo_data *data;
    kolo_guard *guard;
    int epochs;              /* default 1 */
    int initial_epoch;       /* epochs of .epochs that were trained before; default 0 */
    bool resume;             /* continue where the model's last kolo_fit() ended or where kolo_checkpoint_load() set it.
                                That may be within an epoch, which begins anew if its steps had another size: after a
                                restart with fewer ranks, say. Training ends after .epochs epochs in all. With
                                .deterministic the weights are bit for bit those without the pause. Unless .verbose = 0
                                the call prints where it continues */
    int batch_size;          /* default 32; of all devices under a strategy, of one rank under kolo_distributed(), of one
                                worker under a strategy of workers, of all ranks under kolo_multi_worker_mirrored() */
    int steps_per_epoch;     /* default: all batches of the data; with .sharded those of all ranks together */
    bool drop_remainder;     /* leave out the last, short batch */
    bool no_shuffle;         /* keep the samples in the order of the data */
    int shuffle_buffer;      /* draw each sample from the next this many remaining samples; default: from all */
    bool sharded;            /* each rank's data are a shard of its own, which only it has: one that it has read itself, or
                                that kolo_data_scatter() sent. Shards may differ in size. Only under a strategy of workers: a
                                rank's workers take batches of its shard alone, an epoch has the batches of all shards,
                                rank 0's validation data are used, and the batches of a rank that dies are left out.
                                Default, and the only way under other strategies: every rank has the whole data, of
                                which each batch is divided among the ranks. tf.data's AutoShardPolicy.OFF */
    kolo_feed_kind feed;     /* how samples are gathered; default: synchronous. The numbers do not depend on it */
    int queue_capacity;      /* batches in a KOLO_FEED_QUEUE, at most an epoch's; default 4 */
    int feed_threads;        /* threads that fill the KOLO_FEED_QUEUE; default 2 */
    kolo_data *validation_data;
    double validation_split;   /* 0 … below 1: this share of the data, the last samples, is used for validation only */
    int validation_freq;       /* epochs between two validations; default 1 */
    int validation_batch_size; /* has no effect: scores do not depend on the size of batches */
    /* The weight of each class: a sample's loss is multiplied by it, besides its own weight. Default 1:
     * .class_weight = {[2] = 0} leaves out class 2 alone. The class is the label, or the index of the largest target. */
    double class_weight[KOLO_CLASS_WEIGHTS_MAX];
    int micro_batch; /* samples that pass through the model together; default: small enough that every thread has a
                        microbatch. A model that is placed on several devices computes several microbatches at once.
                        With .micro_batch = .batch_size only one of its devices computes at a time */
    int check_every; /* steps between two comparisons of the ranks' weights, which must be equal: a rank that differs ends
                        the fit on all with a sentence that names it. Default: never */
    kolo_callback callbacks[KOLO_CALLBACKS_MAX];
    int verbose; /* 1: a progress bar, 2: a line an epoch, 0: nothing; default: 1 in a terminal or a notebook, else 2.
                    Only rank 0 prints */
} kolo_fit_args;

/* Trains the model. The result belongs to the model and is valid until its next fit or until the model is freed; NULL
 * on failure. kolo_request_stop() ends the call early with the completed epochs. Under kolo_distributed() all ranks
 * must call it.
 *
 * Ranks that train together compare what must be equal. If it differs, the call fails on all of them before the first
 * step, with a sentence that names the difference and a rank. Compared are:
 *   - the presence of kolo_distributed() or of a strategy over ranks. A rank without them trains alone, and waits for
 *     nobody. But if another rank waits for it, it fails on both: at once if kolo_broadcast_variables() is among its
 *     .callbacks, else when the other has waited for KOLO_STALL_LIMIT. If one rank is to train alone first, the
 *     others can wait for it in kolo_barrier() before they train;
 *   - the model: layers, optimizer, loss and metrics with their numbers, precision, the strategy and its options except
 *     .record and those of devices;
 *   - the arguments, except .verbose, .feed and its numbers, and .micro_batch, of which the smallest counts;
 *   - of the callbacks those that change the training: broadcast, early stopping, and those of the learning rate. Others
 *     may be on one rank alone. Functions of callbacks cannot be compared, but the learning rate is, before each epoch
 *     (under a strategy of workers before the first one);
 *   - unless .sharded: features, labels, targets and sample weights of the training and of the validation data. Of more
 *     than 2²⁴ numbers so many are compared, from samples all over the data; of features that a view computes, 256
 *     samples.
 * The seed is not compared: all ranks take rank 0's. */
#define kolo_fit(...) kolo_fit_at(&(const kolo_fit_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
const kolo_history *kolo_fit_at(const kolo_fit_args *args, kolo_here here);

typedef struct kolo_scores {
    double loss, accuracy; /* NaN on failure; accuracy also without that metric */
    int64_t samples;
    double seconds;
    int metrics;
    double metric[KOLO_METRICS_MAX]; /* [metrics], of .metrics in their order, with accuracy */
    char metric_name[KOLO_METRICS_MAX][KOLO_METRIC_NAME];
} kolo_scores;
/* The score with that name ("loss" or a metric's), or NaN. */
double kolo_scores_get(const kolo_scores *scores, const char *name);

typedef struct kolo_evaluate_args {
    int _;
    kolo_model *model;
    kolo_data *data;
    kolo_guard *guard;
    int batch_size; /* has no effect: scores do not depend on the size of batches */
    int verbose; /* 1 or 2 prints a line; default: nothing */
} kolo_evaluate_args;

/* Loss and metrics over all the data, without dropout. Local: each calling rank computes on all the data by itself. */
#define kolo_evaluate(...) kolo_evaluate_at(&(const kolo_evaluate_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_scores kolo_evaluate_at(const kolo_evaluate_args *args, kolo_here here);

/* Writes the model's outputs to the caller's outputs[samples][elements of the last layer]. Local, like
 * kolo_evaluate. */
#define kolo_predict(model, data, outputs) kolo_predict_at(model, data, outputs, KOLO_HERE)
kolo_status kolo_predict_at(kolo_model *model, kolo_data *data, float *outputs, kolo_here here);

/* The members of an ensemble, after a kolo_fit() under kolo_ensemble() and until the next one or kolo_compile(). Under
 * kolo_distributed() only rank 0 has them. A callback that sets the model's weights in a fit, as .restore_best_weights
 * does, sets those of all members. */
int kolo_ensemble_size(const kolo_model *model); /* number of members; 0: it has none, or not on this rank */
/* Writes a member's weights to the caller's weights[kolo_count_params()], in the order of kolo_weight_get(). */
#define kolo_ensemble_weights(model, member, weights) kolo_ensemble_weights_at(model, member, weights, KOLO_HERE)
kolo_status kolo_ensemble_weights_at(kolo_model *model, int member, float *weights, kolo_here here);
/* The member's mean loss over its own batches in epoch[epoch] of the fit's history; NaN if there is no such member or
 * epoch. */
double kolo_ensemble_loss(const kolo_model *model, int member, int epoch);
/* kolo_predict() by all members: writes the mean of their outputs. A model that ends in logits is averaged in logits. The
 * model's own weights stay. */
#define kolo_ensemble_predict(model, data, outputs) kolo_ensemble_predict_at(model, data, outputs, KOLO_HERE)
kolo_status kolo_ensemble_predict_at(kolo_model *model, kolo_data *data, float *outputs, kolo_here here);

typedef struct kolo_profile_args {
    int _;
    kolo_model *model;
    kolo_data *data;
    kolo_guard *guard;
    int batch_size; /* default 32 */
    int steps; /* timed steps, after one that is not timed; default 10 */
    const char *file; /* write JSON, too: {"threads", "batch", "seconds", "layers": [{"name", "forward", "backward"}]}.
                         Values are seconds a step. Those of layers are summed over all threads. Default: no file */
} kolo_profile_args;

/* Runs training steps on one replica without changing the weights, and prints for each layer the time of its forward
 * and backward pass in a step, summed over all threads, and its share of the total. The optimizer's update is not
 * included: see kolo_get_timings() after a kolo_fit(). */
#define kolo_profile(...) kolo_profile_at(&(const kolo_profile_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_profile_at(const kolo_profile_args *args, kolo_here here);

/* One training step for your own training loop, with the samples first … first+samples-1. They are divided among the
 * devices of the strategy and, under kolo_distributed(), among the ranks, which must all make the same call. Updates
 * the weights, and returns the loss and the metrics of these samples over all ranks, with dropout, from before the
 * update. On failure the scores are NaN. */
#define kolo_train_on_batch(model, data, first, samples) kolo_train_on_batch_at(model, data, first, samples, KOLO_HERE)
kolo_scores kolo_train_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, kolo_here here);
/* kolo_evaluate() and kolo_predict() for only these samples; outputs[samples][elements of the last layer]. Local. */
#define kolo_test_on_batch(model, data, first, samples) kolo_test_on_batch_at(model, data, first, samples, KOLO_HERE)
kolo_scores kolo_test_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, kolo_here here);
#define kolo_predict_on_batch(model, data, first, samples, outputs)                                                    \
    kolo_predict_on_batch_at(model, data, first, samples, outputs, KOLO_HERE)
kolo_status kolo_predict_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, float *outputs,
                                     kolo_here here);

/* Returns the loss (the mean over the samples) and writes its gradient with respect to every weight, without dropout,
 * to gradients[kolo_count_params()], in the order of kolo_weight_get(); gradients may be NULL. Batch norm uses the mean
 * and variance of these samples, as in training. Nothing is updated. Weights that are not trained have a gradient of 0.
 * NaN on failure. */
#define kolo_gradients(model, data, gradients) kolo_gradients_at(model, data, gradients, KOLO_HERE)
double kolo_gradients_at(kolo_model *model, kolo_data *data, float *gradients, kolo_here here);

#endif
