/* Section 5 of kolo.h: optimizers; losses and metrics are in kolo_losses.h. Included by kolo.h: read that first. */
#ifndef KOLO_OPTIMIZERS_H
#define KOLO_OPTIMIZERS_H

#include "kolo.h"
#include "kolo_schedules.h"

/* ------------------------------------------------------------------------------------------ 5 optimizers */

typedef struct kolo_optimizer_kind kolo_optimizer_kind; /* defined in optimizers/optimizer.h; yours is one, too */
extern const kolo_optimizer_kind kolo_sgd_kind, kolo_adagrad_kind, kolo_adadelta_kind, kolo_rmsprop_kind,
    kolo_adam_kind, kolo_adamw_kind, kolo_adamax_kind, kolo_nadam_kind, kolo_lars_kind, kolo_lamb_kind,
    kolo_novograd_kind;

/* Options of every optimizer, with Keras's names and meaning. g is the mean gradient over the batch's samples (of all
 * devices, and under kolo_distributed() of all ranks), plus 2λw for kernels with .l2. A step is one update: g is
 * clipped, the weights decay, and the optimizer's rule is applied. At most one of the three clips may be given. */
#define KOLO_OPTIMIZER_OPTIONS                                                                                         \
    const char *_;                                                                                                     \
    kolo_guard *guard;                                                                                                 \
    double learning_rate;    /* η ≥ 0; the default is given with each optimizer */                                     \
    kolo_schedule schedule;  /* η of each step, see kolo_schedules.h; default: constant */                             \
    double weight_decay;     /* λ ≥ 0: w ← w − ηλw before each update (Loshchilov and Hutter 2019); default 0 */       \
    double clip_value;       /* clips every element of g to ± this value; default: no clipping */                      \
    double clip_norm;        /* limits the Euclidean norm of each array's g; default: no limit */                      \
    double global_clip_norm; /* limits the Euclidean norm of all of g (Pascanu et al. 2013); default: no limit */      \
    int accumulate_steps     /* one update for this many batches, with the mean over all their samples; default 1. An  \
                            incomplete group continues in the next epoch, and in the next kolo_fit() */

typedef struct kolo_common_args {
    KOLO_OPTIMIZER_OPTIONS;
} kolo_common_args;

/* Sutskever et al. 2013, as in Keras: v ← µv − ηg; w ← w + v, or with .nesterov w ← w + µv − ηg. Default η: 0.01. */
typedef struct kolo_sgd_args {
    KOLO_OPTIMIZER_OPTIONS;
    double momentum; /* µ in [0, 1), default 0 */
    bool nesterov;
} kolo_sgd_args;

/* Duchi et al. 2011: a ← a + g²; w ← w − ηg / √(a + ε). Default η: 1e-3. */
typedef struct kolo_adagrad_args {
    KOLO_OPTIMIZER_OPTIONS;
    double initial_accumulator_value; /* a at the start, default 0.1 */
    double epsilon;                   /* default 1e-7 */
} kolo_adagrad_args;

/* Zeiler 2012: a ← ρa + (1−ρ)g²; d = −g √(b + ε) / √(a + ε); b ← ρb + (1−ρ)d²; w ← w + ηd. Default η: 1e-3, as in
 * Keras; the paper has 1. */
typedef struct kolo_adadelta_args {
    KOLO_OPTIMIZER_OPTIONS;
    double rho;     /* in [0, 1), default 0.95 */
    double epsilon; /* default 1e-7 */
} kolo_adadelta_args;

/* Hinton et al. 2012: v ← ρv + (1−ρ)g²; d = ηg / √(v + ε); w ← w − d. With .centered, d = ηg / √(v − m² + ε) where
 * m ← ρm + (1−ρ)g. With .momentum, u ← µu + d; w ← w − u. Default η: 1e-3. */
typedef struct kolo_rmsprop_args {
    KOLO_OPTIMIZER_OPTIONS;
    double rho;      /* in [0, 1), default 0.9 */
    double momentum; /* µ in [0, 1), default 0 */
    double epsilon;  /* default 1e-7 */
    bool centered;
} kolo_rmsprop_args;

/* Kingma and Ba 2015, in Keras's form: m ← m + (1−β₁)(g − m); v ← v + (1−β₂)(g² − v);
 * w ← w − η·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε), with t = 1 at the first update. Default η: 1e-3. */
typedef struct kolo_adam_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1;  /* in [0, 1), default 0.9 */
    double beta_2;  /* in [0, 1), default 0.999 */
    double epsilon; /* default 1e-7 */
    bool amsgrad;   /* uses the largest v so far instead of v (Reddi et al. 2018) */
} kolo_adam_args;

/* Loshchilov and Hutter 2019: Adam with a default .weight_decay of 0.004; 0 turns it off. Default η: 1e-3. */
typedef kolo_adam_args kolo_adamw_args;

/* Kingma and Ba 2015, section 7.1: u ← max(β₂u, |g|); w ← w − η/(1−β₁ᵗ) · m / (u + ε), with m and t as for Adam.
 * Default η: 1e-3. */
typedef struct kolo_adamax_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1;  /* in [0, 1), default 0.9 */
    double beta_2;  /* in [0, 1), default 0.999 */
    double epsilon; /* default 1e-7 */
} kolo_adamax_args;

/* Dozat 2016: Adam with Nesterov's momentum, µₜ = β₁(1 − 0.96ᵗ/2). Default η: 1e-3. */
typedef kolo_adamax_args kolo_nadam_args;

/* You et al. 2017, for large batches: each array of weights has its own rate, η·c·‖w‖ / (‖g‖ + λ‖w‖ + ε);
 * v ← µv + rate·(g + λw); w ← w − v. λ is .weight_decay. The rate of an array with ‖w‖ = 0 or ‖g‖ = 0 is η.
 * Default η: 0.1. */
typedef struct kolo_lars_args {
    KOLO_OPTIMIZER_OPTIONS;
    double momentum;          /* µ in [0, 1), default 0.9 */
    double trust_coefficient; /* c, default 0.001 */
    double epsilon;           /* default 1e-8 */
    bool scale_vectors;       /* no exception for arrays with one axis (biases, gamma, beta); default: their rate is η,
         and they do not decay */
} kolo_lars_args;

/* You et al. 2020, as in Keras: Adam's step r = m̂ / (√v̂ + ε), scaled for each array by the norm of its weights:
 * w ← w − η·‖w‖/‖r‖·r. .weight_decay is applied separately, as in all of Keras's optimizers (the paper adds λw to r).
 * Default η: 1e-3. */
typedef struct kolo_lamb_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1;        /* in [0, 1), default 0.9 */
    double beta_2;        /* in [0, 1), default 0.999 */
    double epsilon;       /* default 1e-7 */
    bool exclude_vectors; /* arrays with one axis use w ← w − ηr and do not decay; default: no exception for them */
} kolo_lamb_args;

/* Ginsburg et al. 2019: one second moment for each array, v ← β₂v + (1−β₂)‖g‖² (at the first step v = ‖g‖²);
 * m ← β₁m + g / (√v + ε) + λw; w ← w − ηm. λ is .weight_decay. Default η: 0.01. */
typedef struct kolo_novograd_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1; /* in [0, 1), default 0.95 */
    double beta_2; /* in [0, 1), default 0.98 */
    double epsilon; /* default 1e-8 */
} kolo_novograd_args;

typedef struct kolo_own_comm kolo_own_comm; /* kolo_tools.h */

typedef struct kolo_optimizer {
    const kolo_optimizer_kind *kind;
    bool distributed; /* these are set by kolo_distributed() */
    int64_t bucket_bytes;
    kolo_reduce_op reduction; /* how the ranks' gradients are combined */
    kolo_compression compression;
    const kolo_own_comm *comm;
    bool sparse_as_dense;
    union {
        kolo_common_args common;
        kolo_sgd_args sgd;
        kolo_adagrad_args adagrad;
        kolo_adadelta_args adadelta;
        kolo_rmsprop_args rmsprop;
        kolo_adam_args adam;
        kolo_adamw_args adamw;
        kolo_adamax_args adamax;
        kolo_nadam_args nadam;
        kolo_lars_args lars;
        kolo_lamb_args lamb;
        kolo_novograd_args novograd;
    };
} kolo_optimizer;

#define kolo_sgd(...)      ((kolo_optimizer){.kind = &kolo_sgd_kind, .sgd = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_adagrad(...)  ((kolo_optimizer){.kind = &kolo_adagrad_kind, .adagrad = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_adadelta(...) ((kolo_optimizer){.kind = &kolo_adadelta_kind, .adadelta = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_rmsprop(...)  ((kolo_optimizer){.kind = &kolo_rmsprop_kind, .rmsprop = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_adam(...)     ((kolo_optimizer){.kind = &kolo_adam_kind, .adam = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_adamw(...)    ((kolo_optimizer){.kind = &kolo_adamw_kind, .adamw = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_adamax(...)   ((kolo_optimizer){.kind = &kolo_adamax_kind, .adamax = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_nadam(...)    ((kolo_optimizer){.kind = &kolo_nadam_kind, .nadam = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_lars(...)     ((kolo_optimizer){.kind = &kolo_lars_kind, .lars = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_lamb(...)     ((kolo_optimizer){.kind = &kolo_lamb_kind, .lamb = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_novograd(...) ((kolo_optimizer){.kind = &kolo_novograd_kind, .novograd = {._ = #__VA_ARGS__, __VA_ARGS__}})

typedef struct kolo_distributed_args {
    const char *_;
    kolo_optimizer optimizer;
    kolo_guard *guard;
    /* KOLO_REDUCE_MEAN, the default: the optimizer receives the mean over all samples of all ranks.
     *
     * KOLO_REDUCE_ADASUM, Horovod's op = hvd.Adasum: the ranks' mean gradients are combined by Adasum, each parameter
     * array by itself. The devices of one rank are averaged before. Changes that the ranks agree on are averaged, and
     * those of one rank alone are added, so the learning rate need not grow with the number of ranks. Horovod combines
     * the steps of the ranks' optimizers; here each optimizer gets the combined gradient, so that all have one state.
     * Not with .deterministic, .accumulate_steps, .comm, or strategies of workers. */
    kolo_reduce_op op;
    /* While the backward pass still computes, the gradients of the layers that are done are summed over the ranks (on
     * GPUs: over all devices), in buckets of whole parameters with at least so many bytes. KOLO_NONE: one sum after the
     * backward pass, as in any case in deterministic mode, with Adasum, with .comm, where embeddings are summed by rows,
     * and on GPUs with layers that are .synchronized. Default: KOLO_BUCKET_BYTES, and on GPUs at least a quarter of the
     * gradient; KOLO_NONE on CPUs where all ranks are on one host and outnumber its cores, since a thread that sums would
     * take its turns from those that compute. KOLO_AUTOTUNE=1 has kolo_fit() find the fastest size: see below */
    int64_t bucket_bytes;
    /* Horovod's compression: gradients travel as numbers of 16 bits, half the bytes, which pays on a slow network. Each
     * rank's sum over its samples is rounded to nearest before it is sent, the ranks' sums are added in float32 in the
     * order of the ranks, and the result is rounded once more: a relative error of up to 2⁻¹¹ in binary16 and 2⁻⁸ in
     * bfloat16 each time. In binary16 the gradients are divided by the samples of the batch (up to the next power of two)
     * while they travel; values that are then above 65504 become infinite, those below 6e-8 zero. Embeddings that are
     * summed by their rows, totals and devices of one rank are not compressed. Not with .deterministic, Adasum, .comm,
     * strategies of workers, or on GPUs. */
    kolo_compression compression;
    const kolo_own_comm *comm; /* an all-reduce of your own (section 10) sums the gradients over the ranks; Kolo keeps the
                                  pointer. Not with .deterministic or a strategy of workers. Default: the built-in one */
    bool sparse_as_dense;      /* the gradients of embeddings are summed by the all-reduce, too. Default: see below */
} kolo_distributed_args;
#define KOLO_BUCKET_BYTES (1 << 20)

/* Data parallelism between ranks, as in Horovod: the optimizer receives the gradient of all ranks. With one rank nothing
 * changes. The learning rate is used as given.
 *
 * A batch changes only a few rows of a large embedding, [words][width]. Ranks then send only the rows whose gradient is
 * not zero, with their numbers (an allgatherv; Horovod: IndexedSlices), and each adds them up in the order of the ranks.
 * They do so for an embedding of at least 2¹⁶ elements in each step in which this moves fewer bytes than the all-reduce:
 * if all ranks together have r such rows, for r · (width + 1) < 2 · words · width. The sums are those of the all-reduce
 * but for the order of additions. Gradients on a GPU, those of .deterministic, of Adasum and of an own .comm are always
 * summed whole.
 *
 * With KOLO_AUTOTUNE=1 in the environment of all ranks, which kolorun --autotune sets, kolo_fit() over several ranks
 * finds the .bucket_bytes itself: Horovod's --autotune. Its first steps try up to five sizes: KOLO_NONE, and 256 KiB,
 * 1 MiB, 4 MiB and 16 MiB, the default first, without those that give a model the same buckets as another. After 3 updates each size has two
 * turns of 6 updates, of which the last 5 are measured by rank 0's clock: 39 updates for three sizes, 63 for five. With
 * .accumulate_steps only the steps that update count. The size with the least median is kept until the next
 * kolo_compile(). Rank 0 says on stderr once what was chosen, and the medians. A kolo_fit() that is too short says so, and
 * the next one goes on. KOLO_AUTOTUNE_LOG=FILE (kolorun --autotune-log-file FILE) has rank 0 write a table in CSV:
 *     tuning,bucket_bytes,buckets,steps,seconds_per_step,chosen
 * with a row for each size: the number of the tuning in this process, from 1; bytes or KOLO_NONE; the number of buckets,
 * 0 for one sum after the backward pass; measured updates; their median in seconds; 1 for the chosen size, else 0.
 * kolo_fit() fails if the file cannot be written, or if KOLO_AUTOTUNE is neither 0 nor 1, or differs between ranks.
 *
 * Where all ranks are on one host, the size of the buckets changes no bit of the results. Between hosts MPI chooses its
 * algorithm by the size of a message, so with three ranks or more the last bits may depend on it, as they do on
 * .bucket_bytes. The hierarchical all-reduce is not tried, since it adds in another order. Rank 0 says once that there is
 * nothing to tune with one rank, on GPUs (their buckets are fixed by captured graphs), with a .bucket_bytes of the
 * program's own, with .deterministic, and wherever else buckets are not used. kolo_train_on_batch() tries nothing. */
#define kolo_distributed(...)                                                                                          \
    kolo_distributed_at(&(const kolo_distributed_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_optimizer kolo_distributed_at(const kolo_distributed_args *args);

#endif
