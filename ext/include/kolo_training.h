/* Sections 6 and 7 of kolo.h: strategies; compile, fit, evaluate, predict. Included by kolo.h: read that first. */
#ifndef KOLO_TRAINING_H
#define KOLO_TRAINING_H

#include "kolo.h"
#include "kolo_callbacks.h"

/* ------------------------------------------------------------------------------------------- 6 strategies */

typedef struct kolo_strategy_kind kolo_strategy_kind; /* strategy/strategy.h; one of your own is the exercise */

/* Kolo's own strategies. An entry X(name) declares kolo_name_kind, which ext/strategy/name.c defines, and makes `name` a
 * choice of --strategy. */
#define KOLO_STRATEGIES(X) X(one_device) X(mirrored) X(central_storage)
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
} kolo_strategy;

/* All on one device: what no strategy means. */
#define kolo_one_device() ((kolo_strategy){._ = 0, &kolo_one_device_kind, .devices = 1})
/* A replica a device; gradients are averaged over all of them before every update. On one device, or where there is
 * none, it is kolo_one_device(). Options: the members of kolo_strategy; what comes out does not depend on them, but for
 * .initial_sync. Four published parallelisers, and tf_cnn_benchmarks' two ways, in these terms:
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
#define kolo_strategy_of(...)     ((kolo_strategy){._ = #__VA_ARGS__, __VA_ARGS__})

/* ---------------------------------------------------------------------- 7 compile, fit, evaluate, predict */

/* Threads. kolo_evaluate, kolo_predict, their parts on a batch, kolo_gradients, kolo_save and kolo_checkpoint_save may be
 * called by any thread of a process. Those of one model wait for one another; each computes with all cores. The calls
 * that change a model (kolo_compile, kolo_fit, kolo_train_on_batch, kolo_load, kolo_checkpoint_load) and kolo_profile
 * never run beside a call of another thread: the later of the two fails at once with a sentence that names the earlier
 * one. A callback's calls are its own fit's thread's, and go through. */

typedef enum kolo_precision {
    KOLO_FLOAT32 = 1, /* the default */
    /* Arithmetic in bfloat16, sums and weights in float32. KOLO_UNSUPPORTED on a CPU without AVX-512, and on a GPU
     * of a compute capability below 8.0: a V100 takes KOLO_MIXED_FP16. */
    KOLO_MIXED_BF16,
    /* Arithmetic in IEEE binary16, sums and weights in float32, with dynamic loss scaling (Micikevicius et al. 2018, as
     * Keras's LossScaleOptimizer): the loss is multiplied by 2^15 on the way back, so that small gradients do not
     * vanish; twice that after 2,000 updates; where a gradient overflows, half of it, and that update is left out, on
     * all devices and ranks alike. Runs on every GPU, and on every CPU, where it is slower than KOLO_FLOAT32. */
    KOLO_MIXED_FP16,
    /* Float32, but GPUs round the factors of products of matrices and of convolutions to 10 bits of fraction, which
     * their tensor cores multiply several times as fast, from compute capability 8.0 on; others have no such cores, and
     * compute as in KOLO_FLOAT32. On a CPU it is KOLO_FLOAT32, bit for bit, and kolo_compile() says so. */
    KOLO_TF32
} kolo_precision;

typedef struct kolo_compile_args {
    int _;
    kolo_model *model;
    kolo_guard *guard;
    kolo_optimizer optimizer; /* required for fit */
    kolo_loss loss;           /* required for fit and evaluate */
    kolo_metric metrics[KOLO_METRICS_MAX];
    kolo_strategy strategy;
    kolo_precision precision; /* KOLO_FLOAT32, KOLO_MIXED_BF16, KOLO_MIXED_FP16, or KOLO_TF32: on the CPU KOLO_FLOAT32 */
    const char *backend;  /* "cuda", "onednn", "reference"; default: KOLO_BACKEND, else the fastest that loads */
    uint64_t seed;        /* weights, order and dropout; default: a new one each time */
    bool deterministic;   /* the same bits for any number of devices and ranks of one kind. The model and the batch alone
                             say into how many parts a batch is cut, in small batches two: more cores gain nothing there */
} kolo_compile_args;

/* Fixes how the model will be trained; draws its weights if they were never set. Compiling again keeps the weights
 * and forgets the optimizer's state. Devices that layers name must be there still. On failure nothing has changed. */
#define kolo_compile(...) kolo_compile_at(&(const kolo_compile_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_compile_at(const kolo_compile_args *args, kolo_here here);

/* What the steps of the last kolo_fit() (or kolo_train_on_batch()) of a model spent on being many: seconds of a device,
 * the mean over the devices; bytes over all devices of this process. All zero before. */
typedef struct kolo_timings {
    int64_t steps;
    double slicing; /* until its samples are where it computes; what is copied ahead of the step costs bytes alone */
    double compute; /* forward and backward, the slicing in it too */
    double waiting; /* for the others, when its own gradient is there */
    double reduce;  /* of gradients to their sum */
    double update; /* until it has the new weights */
    int64_t sliced_bytes, reduced_bytes, updated_bytes; /* copied by each of these */
} kolo_timings;
kolo_timings kolo_get_timings(const kolo_model *model);

/* What an epoch gave. loss and the metrics are those of all the epoch's samples so far as they were trained, dropout
 * on, as Keras prints them; the val_ ones are NaN where nothing was validated, accuracy NaN without that metric. */
typedef struct kolo_epoch {
    double loss, accuracy, val_loss, val_accuracy;
    double seconds;           /* of training, validation excluded */
    double images_per_second; /* samples trained / seconds, over all ranks */
    int64_t images;           /* samples trained, over all ranks */
    int steps;                /* updates */
    double learning_rate;     /* at the epoch's end */
    double metric[KOLO_METRICS_MAX], val_metric[KOLO_METRICS_MAX]; /* each of .metrics, accuracy too, in its order */
} kolo_epoch;

typedef struct kolo_history {
    int epochs;
    const kolo_epoch *epoch; /* [epochs] */
    int ranks, devices;      /* devices: replicas a rank */
    bool stopped;            /* ended by kolo_request_stop() or by a callback, before its last epoch */
    int first_epoch;         /* of kolo_fit's .initial_epoch */
    int metrics;
    char metric_name[KOLO_METRICS_MAX][KOLO_METRIC_NAME]; /* [metrics], "f1_score_weighted" */
} kolo_history;

/* What epoch number `epoch` (from 0) of a history gave under that name: "loss", "f1_score_weighted", "val_accuracy",
 * "seconds", "images_per_second", "images", "steps", "learning_rate". NaN where there is none. */
double kolo_history_get(const kolo_history *history, int epoch, const char *name);
/* A history that stays when the model trains again or is freed; NULL on failure. */
#define kolo_history_copy(history) kolo_history_copy_at(history, KOLO_HERE)
kolo_history *kolo_history_copy_at(const kolo_history *history, kolo_here here);
/* One that kolo_history_copy() or kolo_history_load() gave. */
void kolo_history_free(kolo_history **history);

#define KOLO_CLASS_WEIGHTS_MAX 128

typedef enum kolo_feed_kind {
    KOLO_FEED_SYNCHRONOUS = 1, /* whoever computes gathers its samples first */
    KOLO_FEED_QUEUE, /* threads of their own gather batches into a queue */
    KOLO_FEED_STAGED /* one thread gathers the next batch while this one is computed */
} kolo_feed_kind;

typedef struct kolo_fit_args {
    const char *_;
    kolo_model *model;
    kolo_data *data;
    kolo_guard *guard;
    int epochs;              /* default 1 */
    int initial_epoch;       /* epochs done before, of .epochs: a training that goes on; default 0 */
    bool resume;             /* go on where the model's last kolo_fit() ended or kolo_checkpoint_load() put it, within an
                                epoch too, up to .epochs in all: the same weights, bit for bit, as without the pause
                                (.deterministic). Unless .verbose = 0 it is said where that is */
    int batch_size;          /* default 32; of all devices under a strategy, of one rank under kolo_distributed() */
    int steps_per_epoch;     /* default: as many as the data has */
    bool drop_remainder;     /* leave out the last, short batch */
    bool no_shuffle;         /* samples in the data's own order */
    int shuffle_buffer;      /* each sample is drawn from so many, the next ones that are left; default: all */
    kolo_feed_kind feed;     /* how samples come to the step; default: synchronous. The numbers are the same */
    int queue_capacity;      /* batches in a KOLO_FEED_QUEUE, at most an epoch's; default 4 */
    int feed_threads;        /* that fill it; default 2 */
    kolo_data *validation_data;
    double validation_split;   /* 0 … below 1: this share of the data, its last samples, is validated, not trained */
    int validation_freq;       /* validate after every that many epochs; default 1 */
    int validation_batch_size; /* of no effect: what is not learnt needs no batches */
    /* By class: how much a sample's loss counts, times its own weight. Default 1; KOLO_NONE: not at all. The class is
     * the label, or the largest of its targets. */
    double class_weight[KOLO_CLASS_WEIGHTS_MAX];
    int micro_batch; /* samples that go through the model together; default: a few for every thread. A model that is
                        placed on several devices works on as many at once: with .micro_batch = .batch_size one
                        device after the other works on the whole batch, and all others wait */
    kolo_callback callbacks[KOLO_CALLBACKS_MAX];
    int verbose; /* 1 a bar, 2 a line an epoch, 0 nothing; default: 1 in a terminal or a notebook, else 2;
                    only rank 0 prints */
} kolo_fit_args;

/* Trains. The result belongs to the model and stays until its next fit or its end; NULL on failure. A stop that was
 * requested ends it early with the epochs that were completed. Under kolo_distributed() all ranks must call it. */
#define kolo_fit(...) kolo_fit_at(&(const kolo_fit_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
const kolo_history *kolo_fit_at(const kolo_fit_args *args, kolo_here here);

typedef struct kolo_scores {
    double loss, accuracy; /* NaN on failure, or where not asked for */
    int64_t samples;
    double seconds;
    int metrics;
    double metric[KOLO_METRICS_MAX]; /* [metrics], each of .metrics, accuracy too, in its order */
    char metric_name[KOLO_METRICS_MAX][KOLO_METRIC_NAME];
} kolo_scores;
/* "loss" or a metric's name; NaN where there is none. */
double kolo_scores_get(const kolo_scores *scores, const char *name);

typedef struct kolo_evaluate_args {
    int _;
    kolo_model *model;
    kolo_data *data;
    kolo_guard *guard;
    int batch_size; /* of no effect: what is not learnt needs no batches */
    int verbose; /* 1 or 2 prints a line; default: nothing */
} kolo_evaluate_args;

/* Loss and metrics over all the data, dropout off. Local: the calling rank alone does it, on the whole data. */
#define kolo_evaluate(...) kolo_evaluate_at(&(const kolo_evaluate_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_scores kolo_evaluate_at(const kolo_evaluate_args *args, kolo_here here);

/* The model's outputs: outputs[samples][elements of the last shape], the caller's. Local, like kolo_evaluate. */
#define kolo_predict(model, data, outputs) kolo_predict_at(model, data, outputs, KOLO_HERE)
kolo_status kolo_predict_at(kolo_model *model, kolo_data *data, float *outputs, kolo_here here);

typedef struct kolo_profile_args {
    int _;
    kolo_model *model;
    kolo_data *data;
    kolo_guard *guard;
    int batch_size; /* default 32 */
    int steps; /* that are timed, after one that is not; default 10 */
    const char *file; /* the numbers as JSON go there, too: {"threads", "batch", "seconds", "layers": [{"name", "forward",
                         "backward"}]}, seconds of a step, those of layers on all threads together; default: nowhere */
} kolo_profile_args;

/* Runs training steps on one replica, learning nothing, and prints how long each layer takes in a step, forward and
 * backward, on all threads together, and what share of it all that is. Without what the optimizer's update takes: that
 * is kolo_get_timings()'s, after a kolo_fit(). */
#define kolo_profile(...) kolo_profile_at(&(const kolo_profile_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_profile_at(const kolo_profile_args *args, kolo_here here);

/* For a training loop of one's own: one step with the samples first … first+samples-1, which are dealt to the devices
 * of the strategy and, under kolo_distributed(), to the ranks, all of which must call it alike. Returns the loss and
 * the metrics of these samples, over all ranks, dropout on, from before the update; the weights of the model are new
 * then. On failure the scores are NaN. */
#define kolo_train_on_batch(model, data, first, samples) kolo_train_on_batch_at(model, data, first, samples, KOLO_HERE)
kolo_scores kolo_train_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, kolo_here here);
/* kolo_evaluate() and kolo_predict() of those samples alone; outputs[samples][elements of the last shape]. Local. */
#define kolo_test_on_batch(model, data, first, samples) kolo_test_on_batch_at(model, data, first, samples, KOLO_HERE)
kolo_scores kolo_test_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, kolo_here here);
#define kolo_predict_on_batch(model, data, first, samples, outputs)                                                    \
    kolo_predict_on_batch_at(model, data, first, samples, outputs, KOLO_HERE)
kolo_status kolo_predict_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, float *outputs,
                                     kolo_here here);

/* Loss (mean over the samples) and its gradient by every weight, dropout off, batch norm with the mean and variance of
 * these samples, as in training; nothing updated, and what is not trained has a gradient of 0. gradients has
 * kolo_count_params() elements in the order of kolo_weight_get(), and may be NULL. NaN on failure. */
#define kolo_gradients(model, data, gradients) kolo_gradients_at(model, data, gradients, KOLO_HERE)
double kolo_gradients_at(kolo_model *model, kolo_data *data, float *gradients, kolo_here here);

#endif
