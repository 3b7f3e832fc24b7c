/* Kolo: training neural networks on one device, on many, and on many ranks.
 *
 * The whole public interface, in C17 (not C++), in the order in which the lessons meet it:
 *   1 errors   2 the runtime: ranks and devices   3 data   4 layers and models   5 optimizers, losses, metrics
 *   6 strategies   7 compile, fit, evaluate, predict   8 callbacks   9 saving   10 collectives   11 showing
 *   12 options of a program
 *
 * How to read a call. Most take designated initializers: `kolo_fit(model, data, .epochs = 8, .batch_size = 512)`.
 * Zero, or an option left out, means its default. KOLO_NONE means "really zero" where that can be meant. A misspelt
 * option does not compile, and neither does a positional argument too many.
 *
 * Shapes are of one sample, channels last: {height, width, channels}; the batch is never written. Sizes are in
 * elements unless a name says bytes; times are seconds; rates are per second.
 *
 * Recipes (layers, optimizers, strategies, callbacks) are plain values: nothing to free, and usable again. Handles
 * (models, data) are pointers: kolo_x_free(&x) takes NULL and leaves NULL.
 *
 * On failure a call returns a kolo_status other than KOLO_OK, or NULL, or NaN; the first sentence of what went wrong
 * is printed once on stderr and kept: see kolo_last_error(). Calls on NULL handles do nothing and fail quietly, so a
 * program may check once, at kolo_finish() (a NULL that no failure explains is one itself). No call exits, aborts or
 * blocks on a user's mistake. Unless it says
 * otherwise a call belongs to the thread that called kolo_init(), on every rank.
 */
#ifndef KOLO_H
#define KOLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KOLO_VERSION "0.1.0"

/* Where in the caller's source a call stands: the `cnn.c:14` of a message. */
typedef struct kolo_here {
    const char *file;
    int line;
} kolo_here;
#define KOLO_HERE ((kolo_here){__FILE__, __LINE__})

/* "Really zero", for a number whose zero means its default: .learning_rate = KOLO_NONE, .verbose = KOLO_NONE. A value
 * that nobody means by chance. */
#define KOLO_NONE (-2147483647)

/* Stands behind the positional arguments of every call, so that an argument whose name was forgotten is an error of
 * the compiler (with -Werror=int-conversion -Werror=incompatible-pointer-types, as kolo.pc has it). Never defined. */
typedef struct kolo_name_of_this_option_was_forgotten kolo_guard;

/* ------------------------------------------------------------------------------------------------ 1 errors */

typedef enum kolo_status {
    KOLO_OK = 0,
    KOLO_INVALID,     /* an argument out of its range, shapes that do not fit */
    KOLO_NOT_FOUND,   /* a file, a folder, a backend, a device that is not there */
    KOLO_IO,          /* reading or writing failed: permission, a full disk */
    KOLO_FORMAT,      /* a file that is not what it should be */
    KOLO_MEMORY,      /* out of memory */
    KOLO_UNSUPPORTED, /* this machine or this build cannot */
    KOLO_COMM,        /* another rank or replica failed */
    KOLO_INTERRUPTED, /* a stop was requested */
    KOLO_INTERNAL     /* a fault of Kolo's own */
} kolo_status;

typedef struct kolo_error {
    kolo_status code;
    const char *text; /* the whole sentence: "cnn.c:14: kolo_sequential: layer 3 (max_pool2d): …"; "" if none */
    const char *file; /* the caller's file, or "" */
    int line;
    int rank;
} kolo_error;

/* The first failure since kolo_clear_error(), of the calling thread or one that worked for it. Owned by Kolo, valid
 * until the next failure or clear on this thread. */
kolo_error kolo_last_error(void);
void kolo_clear_error(void);
const char *kolo_status_name(kolo_status status);

/* --------------------------------------------------------------------------- 2 the runtime: ranks and devices */

/* Starts Kolo: joins the other ranks if a launcher started this process as one of several, else rank 0 of 1. May be
 * called again. Both arguments may be NULL. A program that never calls it is rank 0 of 1. */
#define kolo_init(argc, argv) kolo_init_at(argc, argv, KOLO_HERE)
kolo_status kolo_init_at(int *argc, char ***argv, kolo_here here);

/* Leaves the job. Returns what main should: 0, or 1 if any call failed since the start or kolo_clear_error(). With
 * several ranks, a rank that failed ends the whole job. */
int kolo_finish(void);

int kolo_rank(void);       /* 0 … size-1 */
int kolo_size(void);       /* ranks in the job */
int kolo_local_rank(void); /* among the ranks of this host */
int kolo_local_size(void);
int kolo_cross_rank(void); /* the host's number */
int kolo_cross_size(void); /* hosts */

typedef struct kolo_device {
    int index;
    char name[32];       /* "cpu:0" */
    char description[96]; /* of the hardware behind it; says "virtual" where devices share it */
    double cores;        /* CPU cores that are this device's share */
} kolo_device;

/* How many devices this process may use: virtual CPU devices, KOLO_CPU_DEVICES of them (default 8), in threads. */
int kolo_device_count(void);
kolo_device kolo_device_get(int index);
/* This process computes on that device alone; index is taken modulo the count, so a local rank can be given as it
 * is. Without it, a model with no strategy computes on one device that has all the cores of the process. */
#define kolo_pin_device(index) kolo_pin_device_at(index, KOLO_HERE)
kolo_status kolo_pin_device_at(int index, kolo_here here);

/* Cores this process may compute with: KOLO_THREADS, or else all that it is allowed. */
int kolo_threads(void);

/* Asks whatever runs (a fit, an evaluation) to end cleanly at the next leaf. Async-signal-safe; any thread. Stays
 * requested until kolo_clear_error() or the end of the call that obeyed it. */
void kolo_request_stop(void);

/* ------------------------------------------------------------------------------------------------ 3 data */

typedef enum kolo_split { KOLO_TRAIN = 1, KOLO_TEST } kolo_split;

typedef struct kolo_data kolo_data;

typedef struct kolo_data_info {
    int64_t samples;
    int shape[4]; /* of one sample; shape[rank…] are 0 */
    int rank;
    int classes;        /* labels are 0 … classes-1 */
    bool synthetic;     /* drawn by Kolo, not read */
    const char *source; /* where it came from, in words: a file, or "digits drawn by Kolo (seed 1)"; owned by data */
} kolo_data_info;

/* MNIST, or what stands in the same IDX format in KOLO_DATA (images and labels, plain or .gz). Where KOLO_DATA is not
 * set, digits that Kolo draws itself, 60,000 and 10,000 of them, after saying so once on stderr. Bytes become
 * [0, 1]. */
#define kolo_mnist(split) kolo_dataset_at(NULL, split, KOLO_HERE)

/* A data set by name ("mnist", "fashion-mnist": folders of KOLO_DATA), by folder (that holds IDX files), or
 * "synthetic". NULL is kolo_mnist's rule. */
#define kolo_dataset(name, split) kolo_dataset_at(name, split, KOLO_HERE)
kolo_data *kolo_dataset_at(const char *name, kolo_split split, kolo_here here);

/* Two IDX files, plain or .gz: images of unsigned bytes (samples × rows × columns [× channels]), labels of unsigned
 * bytes. */
#define kolo_idx(images, labels) kolo_idx_at(images, labels, KOLO_HERE)
kolo_data *kolo_idx_at(const char *images, const char *labels, kolo_here here);

/* Digits drawn from strokes: 28×28×1, ten classes, deterministic by seed. KOLO_TRAIN and KOLO_TEST never share a
 * sample. */
typedef struct kolo_synthetic_digits_args {
    int _;
    kolo_split split;
    kolo_guard *guard;
    int64_t samples; /* default 60,000 for KOLO_TRAIN, 10,000 for KOLO_TEST */
    uint64_t seed;   /* default 1 */
} kolo_synthetic_digits_args;
#define kolo_synthetic_digits(...)                                                                                     \
    kolo_synthetic_digits_at(&(const kolo_synthetic_digits_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_synthetic_digits_at(const kolo_synthetic_digits_args *args, kolo_here here);

/* Arrays of the caller's, copied: features[samples][shape…], labels[samples] in 0 … classes-1. */
typedef struct kolo_data_from_arrays_args {
    int _;
    const float *features;
    const int32_t *labels; /* NULL: no labels; such data can only be predicted */
    kolo_guard *guard;
    int64_t samples;
    int shape[4];
    int classes; /* default: the largest label + 1 */
} kolo_data_from_arrays_args;
#define kolo_data_from_arrays(...)                                                                                     \
    kolo_data_from_arrays_at(&(const kolo_data_from_arrays_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_data *kolo_data_from_arrays_at(const kolo_data_from_arrays_args *args, kolo_here here);

/* The samples first … first+samples-1 as a data set of its own, which shares the other's memory; either may be freed
 * first. */
#define kolo_data_slice(data, first, samples) kolo_data_slice_at(data, first, samples, KOLO_HERE)
kolo_data *kolo_data_slice_at(kolo_data *data, int64_t first, int64_t samples, kolo_here here);

kolo_data_info kolo_data_get_info(const kolo_data *data); /* all zero for NULL */
/* One sample as the network sees it: features[elements of the shape], and its label (-1 where there are none). Either
 * target may be NULL. */
#define kolo_data_sample(data, index, features, label) kolo_data_sample_at(data, index, features, label, KOLO_HERE)
kolo_status kolo_data_sample_at(const kolo_data *data, int64_t index, float *features, int *label, kolo_here here);
void kolo_data_free(kolo_data **data);

/* ------------------------------------------------------------------------------------- 4 layers and models */

typedef enum kolo_activation {
    KOLO_LINEAR = 1, /* what leaving it out means, too */
    KOLO_RELU,       /* max(0, x) */
    KOLO_SOFTMAX     /* exp(x) / Σ exp(x) over the last axis */
} kolo_activation;

typedef enum kolo_padding {
    KOLO_VALID = 1, /* no padding (the default) */
    KOLO_SAME       /* zeros around, so that output = ceil(input / stride), as Keras and TensorFlow place them */
} kolo_padding;

/* The sizes of one sample, the outermost first: kolo_input(28, 28, 1), kolo_input(30). */
typedef struct kolo_input_args {
    int _;
    int size_1, size_2, size_3, size_4;
    kolo_guard *guard;
} kolo_input_args;

/* 2-D convolution. Input {H, W, C}; output {H', W', filters}. Weights: kernel {kh, kw, C, filters} (Glorot-uniform),
 * bias {filters} (zero). */
typedef struct kolo_conv2d_args {
    int _;
    int filters; /* ≥ 1 */
    kolo_guard *guard;
    int kernel[2];        /* height, width; required */
    int stride[2];        /* default {1, 1} */
    kolo_padding padding; /* default KOLO_VALID */
    kolo_activation activation;
    bool no_bias;
    const char *name;
} kolo_conv2d_args;

/* The largest of each window. Input {H, W, C}; the window does not leave the input unless padding is KOLO_SAME. */
typedef struct kolo_max_pool2d_args {
    int _;
    int height, width; /* of the window; width defaults to height */
    kolo_guard *guard;
    int stride[2]; /* default: the window */
    kolo_padding padding;
    const char *name;
} kolo_max_pool2d_args;

/* In training, each element becomes 0 with probability rate, else is divided by 1 - rate. */
typedef struct kolo_dropout_args {
    int _;
    double rate; /* 0 ≤ rate < 1 */
    kolo_guard *guard;
    const char *name;
} kolo_dropout_args;

typedef struct kolo_flatten_args {
    int _;
    kolo_guard *guard;
    const char *name;
} kolo_flatten_args;

/* y = activation(x·kernel + bias), over the last axis. Weights: kernel {inputs, units} (Glorot-uniform), bias {units}
 * (zero). */
typedef struct kolo_dense_args {
    int _;
    int units; /* ≥ 1 */
    kolo_guard *guard;
    kolo_activation activation;
    bool no_bias;
    const char *name;
} kolo_dense_args;

typedef struct kolo_activate_args {
    int _;
    kolo_activation activation;
    kolo_guard *guard;
    const char *name;
} kolo_activate_args;

/* What a layer is: its shape rule, forward and backward. Defined in layers/layer.h; a layer of one's own is one. */
typedef struct kolo_layer_kind kolo_layer_kind;
extern const kolo_layer_kind kolo_input_kind, kolo_conv2d_kind, kolo_max_pool2d_kind, kolo_dropout_kind,
    kolo_flatten_kind, kolo_dense_kind, kolo_activate_kind;

/* A recipe for a layer: made by the macros below. */
typedef struct kolo_layer {
    const kolo_layer_kind *kind;
    union {
        kolo_input_args input;
        kolo_conv2d_args conv2d;
        kolo_max_pool2d_args max_pool2d;
        kolo_dropout_args dropout;
        kolo_flatten_args flatten;
        kolo_dense_args dense;
        kolo_activate_args activate;
    };
} kolo_layer;

#define kolo_input(...)      ((kolo_layer){.kind = &kolo_input_kind, .input = {._ = 0, __VA_ARGS__}})
#define kolo_conv2d(...)     ((kolo_layer){.kind = &kolo_conv2d_kind, .conv2d = {._ = 0, __VA_ARGS__}})
#define kolo_max_pool2d(...) ((kolo_layer){.kind = &kolo_max_pool2d_kind, .max_pool2d = {._ = 0, __VA_ARGS__}})
#define kolo_dropout(...)    ((kolo_layer){.kind = &kolo_dropout_kind, .dropout = {._ = 0, __VA_ARGS__}})
#define kolo_flatten(...)    ((kolo_layer){.kind = &kolo_flatten_kind, .flatten = {._ = 0, __VA_ARGS__}})
#define kolo_dense(...)      ((kolo_layer){.kind = &kolo_dense_kind, .dense = {._ = 0, __VA_ARGS__}})
#define kolo_activate(...)   ((kolo_layer){.kind = &kolo_activate_kind, .activate = {._ = 0, __VA_ARGS__}})

typedef struct kolo_model kolo_model;

/* Layers in a row, the first of them kolo_input(). Shapes are checked here; a misfit names the layer. NULL on
 * failure. */
#define kolo_sequential(...) kolo_sequential_at((const kolo_layer[]){__VA_ARGS__, {0}}, KOLO_HERE)
kolo_model *kolo_sequential_at(const kolo_layer *layers, kolo_here here); /* ended by a layer of all zeros */
void kolo_model_free(kolo_model **model);

/* Prints the table of layers, shapes and weights on stdout. */
#define kolo_summary(model) kolo_summary_at(model, KOLO_HERE)
kolo_status kolo_summary_at(const kolo_model *model, kolo_here here);
int64_t kolo_count_params(const kolo_model *model); /* weights in all; 0 for NULL */

/* One array of weights: name "conv2d.kernel", shape, and its values, which belong to the model. */
typedef struct kolo_weight {
    const char *name;
    int shape[4];
    int rank;
    int64_t count;
    float *values; /* drawn by the first kolo_compile(); may be written between calls */
} kolo_weight;
int kolo_weight_count(const kolo_model *model);
kolo_weight kolo_weight_get(kolo_model *model, int index); /* all zero when there is no such weight */

/* ----------------------------------------------------------------------- 5 optimizers, losses, metrics */

typedef struct kolo_optimizer_kind kolo_optimizer_kind; /* core/optimizer.h */
extern const kolo_optimizer_kind kolo_sgd_kind, kolo_adam_kind;

/* Sutskever et al. 2013, as in Keras: v ← µv − ηg; w ← w + v, or with Nesterov w ← w + µv − ηg. */
typedef struct kolo_sgd_args {
    int _;
    kolo_guard *guard;
    double learning_rate; /* η, default 0.01 */
    double momentum;      /* µ in [0, 1), default 0 */
    bool nesterov;
} kolo_sgd_args;

/* Kingma and Ba 2015, in Keras's form: w ← w − η·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε). */
typedef struct kolo_adam_args {
    int _;
    kolo_guard *guard;
    double learning_rate; /* η, default 1e-3 */
    double beta_1;        /* default 0.9 */
    double beta_2;        /* default 0.999 */
    double epsilon;       /* default 1e-7 */
} kolo_adam_args;

typedef struct kolo_optimizer {
    const kolo_optimizer_kind *kind;
    bool distributed; /* set by kolo_distributed() */
    union {
        kolo_sgd_args sgd;
        kolo_adam_args adam;
    };
} kolo_optimizer;

#define kolo_sgd(...)  ((kolo_optimizer){.kind = &kolo_sgd_kind, .sgd = {._ = 0, __VA_ARGS__}})
#define kolo_adam(...) ((kolo_optimizer){.kind = &kolo_adam_kind, .adam = {._ = 0, __VA_ARGS__}})

/* Horovod's way to distribute: the optimizer sees the gradient averaged over all samples of all ranks. With one rank
 * it changes nothing. The learning rate is used as given. */
static inline kolo_optimizer kolo_distributed(kolo_optimizer optimizer)
{
    optimizer.distributed = true;
    return optimizer;
}

/* A loss and a metric are pointers to what they are (core/loss.h); one of the learner's own works the same way. */
typedef const struct kolo_loss_kind *kolo_loss;
typedef const struct kolo_metric_kind *kolo_metric;
extern const struct kolo_loss_kind kolo_sparse_crossentropy_kind;
extern const struct kolo_metric_kind kolo_accuracy_kind;

/* −log softmax(logits)[label], from logits. After a last layer with KOLO_SOFTMAX the same, from its logits. */
#define KOLO_SPARSE_CROSSENTROPY (&kolo_sparse_crossentropy_kind)
/* The share of samples whose largest output is the label's; of equal outputs the first counts. */
#define KOLO_ACCURACY    (&kolo_accuracy_kind)
#define KOLO_METRICS_MAX 8

/* ------------------------------------------------------------------------------------------- 6 strategies */

typedef struct kolo_strategy_kind kolo_strategy_kind; /* strategy/strategy.h; one of your own is the exercise */
extern const kolo_strategy_kind kolo_one_device_kind, kolo_mirrored_kind;

typedef struct kolo_strategy {
    int _;
    const kolo_strategy_kind *kind;
    kolo_guard *guard;
    int devices; /* replicas, one a device; default: every device of this process */
} kolo_strategy;

/* All on one device: what no strategy means. */
#define kolo_one_device() ((kolo_strategy){._ = 0, &kolo_one_device_kind, .devices = 1})
/* A replica a device, each with a copy of the weights; gradients are summed over all before every update.
 * Options: .devices. */
#define kolo_mirrored(...)    ((kolo_strategy){._ = 0, &kolo_mirrored_kind, __VA_ARGS__})
#define kolo_strategy_of(...) ((kolo_strategy){._ = 0, __VA_ARGS__})

/* ---------------------------------------------------------------------- 7 compile, fit, evaluate, predict */

typedef enum kolo_precision {
    KOLO_FLOAT32 = 1, /* the default */
    KOLO_MIXED_BF16   /* arithmetic in bfloat16, sums and weights in float32; KOLO_UNSUPPORTED without AVX-512 */
} kolo_precision;

typedef struct kolo_compile_args {
    int _;
    kolo_model *model;
    kolo_guard *guard;
    kolo_optimizer optimizer; /* required for fit */
    kolo_loss loss;           /* required for fit and evaluate */
    kolo_metric metrics[KOLO_METRICS_MAX];
    kolo_strategy strategy;
    kolo_precision precision;
    const char *backend;  /* "onednn", "reference"; default: KOLO_BACKEND, else the fastest that loads */
    uint64_t seed;        /* weights, order and dropout; default: a new one each time */
    bool deterministic;   /* the same bits for any number of devices and ranks of one kind */
} kolo_compile_args;

/* Fixes how the model will be trained; draws its weights if they were never set. Compiling again keeps the weights
 * and forgets the optimizer's state. On failure nothing has changed. */
#define kolo_compile(...) kolo_compile_at(&(const kolo_compile_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_compile_at(const kolo_compile_args *args, kolo_here here);

/* What an epoch gave. loss and the metrics are running means over the epoch's samples, dropout on, as Keras prints
 * them; the val_ ones are NaN without validation data, accuracy NaN without that metric. */
typedef struct kolo_epoch {
    double loss, accuracy, val_loss, val_accuracy;
    double seconds;           /* of training, validation excluded */
    double images_per_second; /* samples trained / seconds, over all ranks */
    int64_t images;           /* samples trained, over all ranks */
    int steps;                /* updates */
    double learning_rate;     /* at the epoch's end */
} kolo_epoch;

typedef struct kolo_history {
    int epochs;
    const kolo_epoch *epoch; /* [epochs] */
    int ranks, devices;      /* devices: replicas a rank */
    bool stopped;            /* ended by kolo_request_stop() or by a callback, before its last epoch */
} kolo_history;

/* A learner's or our own hooks into training: section 8. */
typedef struct kolo_logs kolo_logs;
typedef struct kolo_callback kolo_callback;
struct kolo_callback {
    const char *name;
    void (*on_train_begin)(kolo_callback *self, const kolo_logs *logs);
    void (*on_train_end)(kolo_callback *self, const kolo_logs *logs);
    void (*on_epoch_begin)(kolo_callback *self, int epoch, const kolo_logs *logs);
    void (*on_epoch_end)(kolo_callback *self, int epoch, const kolo_logs *logs);
    void (*on_train_batch_begin)(kolo_callback *self, int batch, const kolo_logs *logs);
    void (*on_train_batch_end)(kolo_callback *self, int batch, const kolo_logs *logs);
    void (*on_test_begin)(kolo_callback *self, const kolo_logs *logs);
    void (*on_test_end)(kolo_callback *self, const kolo_logs *logs);
    kolo_model *model; /* set by kolo_fit */
    void *user;        /* the callback's own; never touched */
    double number[4];  /* the callback's own; as given at the start of each kolo_fit */
};
#define KOLO_CALLBACKS_MAX 16

typedef struct kolo_fit_args {
    int _;
    kolo_model *model;
    kolo_data *data;
    kolo_guard *guard;
    int epochs;              /* default 1 */
    int batch_size;          /* default 32; of all devices under a strategy, of one rank under kolo_distributed() */
    int steps_per_epoch;     /* default: as many as the data has */
    bool drop_remainder;     /* leave out the last, short batch */
    bool no_shuffle;         /* samples in the data's own order */
    kolo_data *validation_data;
    int validation_batch_size; /* default: batch_size */
    kolo_callback callbacks[KOLO_CALLBACKS_MAX];
    int verbose; /* 1 a bar, 2 a line an epoch, KOLO_NONE nothing; default: 1 in a terminal or a notebook, else 2;
                    only rank 0 prints */
} kolo_fit_args;

/* Trains. The result belongs to the model and stays until its next fit or its end; NULL on failure. A stop that was
 * requested ends it early with the epochs that were completed. Under kolo_distributed() all ranks must call it. */
#define kolo_fit(...) kolo_fit_at(&(const kolo_fit_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
const kolo_history *kolo_fit_at(const kolo_fit_args *args, kolo_here here);

typedef struct kolo_scores {
    double loss, accuracy; /* NaN on failure, or where not asked for */
    int64_t samples;
    double seconds;
} kolo_scores;

typedef struct kolo_evaluate_args {
    int _;
    kolo_model *model;
    kolo_data *data;
    kolo_guard *guard;
    int batch_size; /* default 1024 */
    int verbose;    /* 1 or 2 prints a line; default: nothing */
} kolo_evaluate_args;

/* Loss and metrics over all the data, dropout off. Local: the calling rank alone does it, on the whole data. */
#define kolo_evaluate(...) kolo_evaluate_at(&(const kolo_evaluate_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_scores kolo_evaluate_at(const kolo_evaluate_args *args, kolo_here here);

/* The model's outputs: outputs[samples][elements of the last shape], the caller's. Local, like kolo_evaluate. */
#define kolo_predict(model, data, outputs) kolo_predict_at(model, data, outputs, KOLO_HERE)
kolo_status kolo_predict_at(kolo_model *model, kolo_data *data, float *outputs, kolo_here here);

/* Loss (mean over the samples) and its gradient by every weight, dropout off, nothing updated; gradients has
 * kolo_count_params() elements in the order of kolo_weight_get(), and may be NULL. NaN on failure. */
#define kolo_gradients(model, data, gradients) kolo_gradients_at(model, data, gradients, KOLO_HERE)
double kolo_gradients_at(kolo_model *model, kolo_data *data, float *gradients, kolo_here here);

/* ------------------------------------------------------------------------------------------- 8 callbacks */

/* What is known when a hook is called; a name that is not known then is NaN. Names: "loss", "accuracy", "val_loss",
 * "val_accuracy", "seconds", "images", "images_per_second", "learning_rate", "steps". At a batch's end loss and
 * accuracy are the epoch's means so far. */
double kolo_logs_get(const kolo_logs *logs, const char *name);
void kolo_stop_training(kolo_model *model);           /* ends the fit after this step, on every rank */
void kolo_set_learning_rate(kolo_model *model, double learning_rate); /* from the next step on */
double kolo_get_learning_rate(const kolo_model *model);

/* Horovod's: at the start of training every rank takes the weights and the optimizer's state of rank root. */
kolo_callback kolo_broadcast_variables(int root);
/* Horovod's: at each epoch's end loss and metrics become the means over the samples of all ranks. Without it a rank
 * reports its own samples'. List it before callbacks that read them. */
kolo_callback kolo_metric_average(void);
/* The lesson's: prints "Epoch time : 1.23" and "Images/sec: 48712.35" after each epoch, on rank 0, counted over the
 * images that all ranks really trained. */
kolo_callback kolo_throughput(void);

/* ----------------------------------------------------------------------------------------------- 9 saving */

/* The weights as a safetensors file, written beside the target and then renamed: the old file or the new, never
 * half of one. Holds no time, rank or device. */
#define kolo_save(model, path) kolo_save_at(model, path, KOLO_HERE)
kolo_status kolo_save_at(const kolo_model *model, const char *path, kolo_here here);
/* Takes the weights from a safetensors file with the same names and shapes; on failure nothing has changed. */
#define kolo_load(model, path) kolo_load_at(model, path, KOLO_HERE)
kolo_status kolo_load_at(kolo_model *model, const char *path, kolo_here here);
/* The history as JSON, as the programs' --history writes it. */
#define kolo_history_save(history, path) kolo_history_save_at(history, path, KOLO_HERE)
kolo_status kolo_history_save_at(const kolo_history *history, const char *path, kolo_here here);

/* ------------------------------------------------------------------------------------------ 10 collectives */

/* Between the ranks, in place, called by all of them with the same count. With one rank they do nothing. */
#define kolo_allreduce(values, count) kolo_allreduce_at(values, count, KOLO_HERE) /* becomes the sum */
kolo_status kolo_allreduce_at(float *values, int64_t count, kolo_here here);
#define kolo_broadcast(values, count, root) kolo_broadcast_at(values, count, root, KOLO_HERE)
kolo_status kolo_broadcast_at(float *values, int64_t count, int root, kolo_here here);
/* all[size][count] */
#define kolo_allgather(values, count, all) kolo_allgather_at(values, count, all, KOLO_HERE)
kolo_status kolo_allgather_at(const float *values, int64_t count, float *all, kolo_here here);
#define kolo_barrier() kolo_barrier_at(KOLO_HERE)
kolo_status kolo_barrier_at(kolo_here here);

/* --------------------------------------------------------------------------------------------- 11 showing */

/* Shows text of a MIME type ("text/plain", "text/html", "image/svg+xml", …) under the notebook cell, also from a
 * launched program; in a terminal prints it if it is text/plain, and nothing otherwise. */
kolo_status kolo_display(const char *mime, const char *text);
/* The same for bytes: "image/png". */
kolo_status kolo_display_bytes(const char *mime, const void *data, size_t size);
/* Shows, and from the second time on replaces, what carries this id. */
kolo_status kolo_update_display(const char *id, const char *mime, const char *text);
/* Clears the cell's output, or with wait as soon as there is something new to show. */
kolo_status kolo_clear_output(bool wait);

typedef struct kolo_series {
    const char *name;
    const double *x; /* NULL: 1, 2, 3, … */
    const double *y;
    int count;
} kolo_series;
#define KOLO_SERIES_MAX 12

typedef struct kolo_plot_args {
    int _;
    const char *title;
    kolo_guard *guard;
    const char *x_label, *y_label;
    kolo_series series[KOLO_SERIES_MAX];
    const char *const *labels; /* of bars: one for each value of the series; NULL: lines */
    bool log_x, log_y;
    bool y_from_zero;
    int width, height; /* pixels, default 640 × 360 */
    const char *file;  /* also written there: .svg or .png */
} kolo_plot_args;

/* A chart of lines with points, or of bars: a picture in a notebook, drawn in characters in a terminal. */
#define kolo_plot(...) kolo_plot_at(&(const kolo_plot_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_plot_at(const kolo_plot_args *args, kolo_here here);

/* --------------------------------------------------------------------------------- 12 options of a program */

/* What every program of the lessons understands. Fill in the program's defaults, then let the command line change
 * them. */
typedef struct kolo_options {
    const char *data; /* --data NAME|FOLDER|synthetic */
    int batch_size;
    int epochs;
    bool drop_remainder;
    double learning_rate;
    kolo_precision precision; /* --precision fp32|bf16 */
    uint64_t seed;
    bool deterministic;
    int devices;          /* --devices N: mirrored replicas; 0: not asked for */
    const char *strategy; /* --strategy NAME: one_device, mirrored */
    const char *save;     /* --save FILE.safetensors */
    const char *history;  /* --history FILE, JSON */
    int steps_per_epoch;
    bool no_validation;
} kolo_options;

/* Reads the command line. --help is answered with exit 0. An unknown option, an impossible value or a --save or
 * --history target that cannot be written is answered by rank 0 with one sentence on stderr, and every rank exits
 * with 2 (1 for the target). Call it after kolo_init(). */
void kolo_parse_options(int argc, char **argv, kolo_options *options, const char *what_the_program_does);
/* The strategy that the options ask for. */
kolo_strategy kolo_options_strategy(const kolo_options *options);

#endif
