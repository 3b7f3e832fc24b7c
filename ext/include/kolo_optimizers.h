/* Section 5 of kolo.h: optimizers; losses and metrics are in kolo_losses.h. Included by kolo.h: read that first. */
#ifndef KOLO_OPTIMIZERS_H
#define KOLO_OPTIMIZERS_H

#include "kolo.h"
#include "kolo_schedules.h"

/* ------------------------------------------------------------------------------------------ 5 optimizers */

typedef struct kolo_optimizer_kind kolo_optimizer_kind; /* optimizers/optimizer.h; one of your own is the same struct */
extern const kolo_optimizer_kind kolo_sgd_kind, kolo_adagrad_kind, kolo_adadelta_kind, kolo_rmsprop_kind,
    kolo_adam_kind, kolo_adamw_kind, kolo_adamax_kind, kolo_nadam_kind, kolo_lars_kind, kolo_lamb_kind,
    kolo_novograd_kind;

/* Options of every optimizer, with Keras's names and meaning. g is the mean gradient over the batch's samples (of all
 * devices, and under kolo_distributed() of all ranks), 2λw of layers with .l2 in it; then it is clipped, the weights
 * decay, and the optimizer's rule follows. Of the three clips one at a time. A step is an update. */
#define KOLO_OPTIMIZER_OPTIONS                                                                                         \
    const char *_;                                                                                                             \
    kolo_guard *guard;                                                                                                 \
    double learning_rate;    /* η, at least 0; each optimizer's default stands with it */                                 \
    kolo_schedule schedule;  /* η of each step, from kolo_schedules.h; default: always the same */                      \
    double weight_decay;     /* λ ≥ 0: w ← w − ηλw before each update (Loshchilov and Hutter 2019); default 0 */           \
    double clip_value;       /* every element of g to ± this; default: not */                                                \
    double clip_norm;        /* each array's g to this Euclidean norm at most; default: not */                                \
    double global_clip_norm; /* all of g together to this norm at most (Pascanu et al. 2013); default: not */          \
    int accumulate_steps     /* batches whose samples' mean gradient makes one update; default 1. A group that is not      \
                            complete goes on in the next epoch, and in the next kolo_fit() */

typedef struct kolo_common_args {
    KOLO_OPTIMIZER_OPTIONS;
} kolo_common_args;

/* Sutskever et al. 2013, as in Keras: v ← µv − ηg; w ← w + v, or with Nesterov w ← w + µv − ηg. η: 0.01. */
typedef struct kolo_sgd_args {
    KOLO_OPTIMIZER_OPTIONS;
    double momentum; /* µ in [0, 1), default 0 */
    bool nesterov;
} kolo_sgd_args;

/* Duchi et al. 2011: a ← a + g²; w ← w − ηg / √(a + ε). η: 1e-3. */
typedef struct kolo_adagrad_args {
    KOLO_OPTIMIZER_OPTIONS;
    double initial_accumulator_value; /* a at the start, default 0.1 */
    double epsilon;                   /* default 1e-7 */
} kolo_adagrad_args;

/* Zeiler 2012: a ← ρa + (1−ρ)g²; d = −g √(b + ε) / √(a + ε); b ← ρb + (1−ρ)d²; w ← w + ηd. η: 1e-3, as in Keras; the
 * paper's is 1. */
typedef struct kolo_adadelta_args {
    KOLO_OPTIMIZER_OPTIONS;
    double rho;     /* in [0, 1), default 0.95 */
    double epsilon; /* default 1e-7 */
} kolo_adadelta_args;

/* Hinton et al. 2012: v ← ρv + (1−ρ)g²; d = ηg / √(v + ε), centered √(v − m² + ε) with m ← ρm + (1−ρ)g; w ← w − d, or
 * with momentum u ← µu + d; w ← w − u. η: 1e-3. */
typedef struct kolo_rmsprop_args {
    KOLO_OPTIMIZER_OPTIONS;
    double rho;      /* in [0, 1), default 0.9 */
    double momentum; /* µ in [0, 1), default 0 */
    double epsilon;  /* default 1e-7 */
    bool centered;
} kolo_rmsprop_args;

/* Kingma and Ba 2015, in Keras's form: m ← m + (1−β₁)(g − m); v ← v + (1−β₂)(g² − v);
 * w ← w − η·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε). η: 1e-3. */
typedef struct kolo_adam_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1;  /* in [0, 1), default 0.9 */
    double beta_2;  /* in [0, 1), default 0.999 */
    double epsilon; /* default 1e-7 */
    bool amsgrad;   /* the largest v so far in v's place (Reddi et al. 2018) */
} kolo_adam_args;

/* Loshchilov and Hutter 2019: Adam, and .weight_decay is 0.004 unless it is given; 0 is none. η: 1e-3. */
typedef kolo_adam_args kolo_adamw_args;

/* Kingma and Ba 2015, section 7.1: u ← max(β₂u, |g|); w ← w − η/(1−β₁ᵗ) · m / (u + ε). η: 1e-3. */
typedef struct kolo_adamax_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1;  /* in [0, 1), default 0.9 */
    double beta_2;  /* in [0, 1), default 0.999 */
    double epsilon; /* default 1e-7 */
} kolo_adamax_args;

/* Dozat 2016: Adam with Nesterov's momentum, µₜ = β₁(1 − 0.96ᵗ/2). η: 1e-3. */
typedef kolo_adamax_args kolo_nadam_args;

/* You et al. 2017, for large batches: each array has a rate of its own, η·c·‖w‖ / (‖g‖ + λ‖w‖ + ε);
 * v ← µv + rate·(g + λw); w ← w − v. .weight_decay is this λ. An array whose ‖w‖ or ‖g‖ is 0 takes η alone. η: 0.1. */
typedef struct kolo_lars_args {
    KOLO_OPTIMIZER_OPTIONS;
    double momentum;          /* µ in [0, 1), default 0.9 */
    double trust_coefficient; /* c, default 0.001 */
    double epsilon;           /* default 1e-8 */
    bool scale_vectors;       /* arrays with one axis (biases, scales and shifts of norms), too; default: they take η
         alone and no decay */
} kolo_lars_args;

/* You et al. 2020, as in Keras: Adam's step r = m̂ / (√v̂ + ε) for each array at its weights' scale:
 * w ← w − η·‖w‖/‖r‖·r. .weight_decay stands beside it, as in all of Keras's (the paper adds λw to r). η: 1e-3. */
typedef struct kolo_lamb_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1;        /* in [0, 1), default 0.9 */
    double beta_2;        /* in [0, 1), default 0.999 */
    double epsilon;       /* default 1e-7 */
    bool exclude_vectors; /* arrays with one axis take w ← w − ηr and no decay; default: they are treated as all are */
} kolo_lamb_args;

/* Ginsburg et al. 2019: one second moment an array, v ← β₂v + (1−β₂)‖g‖² (‖g‖² at the first step);
 * m ← β₁m + g / (√v + ε) + λw; w ← w − ηm. .weight_decay is this λ. η: 0.01. */
typedef struct kolo_novograd_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1; /* in [0, 1), default 0.95 */
    double beta_2; /* in [0, 1), default 0.98 */
    double epsilon; /* default 1e-8 */
} kolo_novograd_args;

typedef struct kolo_optimizer {
    const kolo_optimizer_kind *kind;
    bool distributed; /* set by kolo_distributed() */
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

/* Horovod's way to distribute: the optimizer sees the gradient averaged over all samples of all ranks. With one rank
 * it changes nothing. The learning rate is used as given. */
static inline kolo_optimizer kolo_distributed(kolo_optimizer optimizer)
{
    optimizer.distributed = true;
    return optimizer;
}

#endif
