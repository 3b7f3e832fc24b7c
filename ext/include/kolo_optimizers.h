/* Section 5 of kolo.h: optimizers, losses, metrics. Included by kolo.h: read that first. */
#ifndef KOLO_OPTIMIZERS_H
#define KOLO_OPTIMIZERS_H

#include "kolo.h"

/* ----------------------------------------------------------------------- 5 optimizers, losses, metrics */

typedef struct kolo_optimizer_kind kolo_optimizer_kind; /* core/optimizer.h */
extern const kolo_optimizer_kind kolo_sgd_kind, kolo_adam_kind;

/* Options of every optimizer, with Keras's names and meaning. */
#define KOLO_OPTIMIZER_OPTIONS                                                                                         \
    int _;                                                                                                             \
    kolo_guard *guard;                                                                                                 \
    double learning_rate;     /* η */                                                                                      \
    double weight_decay;      /* λ: w ← w − ηλw beside each update; default 0 (AdamW: 0.004) */                             \
    double clip_value;        /* every element of the mean gradient to ± this; default: not */                                \
    double clip_norm;         /* the gradient of each array of weights to this norm at most */                                 \
    double global_clip_norm;  /* all of them together to this norm at most; one of the three at a time */               \
    int accumulate_steps      /* batches whose mean gradient makes one update; default 1 */

typedef struct kolo_common_args {
    KOLO_OPTIMIZER_OPTIONS;
} kolo_common_args;

/* Sutskever et al. 2013, as in Keras: v ← µv − ηg; w ← w + v, or with Nesterov w ← w + µv − ηg. η: 0.01. */
typedef struct kolo_sgd_args {
    KOLO_OPTIMIZER_OPTIONS;
    double momentum; /* µ in [0, 1), default 0 */
    bool nesterov;
} kolo_sgd_args;

/* Kingma and Ba 2015, in Keras's form: w ← w − η·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε). η: 1e-3. */
typedef struct kolo_adam_args {
    KOLO_OPTIMIZER_OPTIONS;
    double beta_1;  /* default 0.9 */
    double beta_2;  /* default 0.999 */
    double epsilon; /* default 1e-7 */
} kolo_adam_args;

typedef struct kolo_optimizer {
    const kolo_optimizer_kind *kind;
    bool distributed; /* set by kolo_distributed() */
    union {
        kolo_common_args common;
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

/* A loss and a metric: what it is (core/loss.h; one of the learner's own works the same way: .loss = {&mine}), and a
 * number that some of them take. */
typedef struct kolo_loss_kind kolo_loss_kind;
typedef struct kolo_metric_kind kolo_metric_kind;
typedef struct kolo_loss {
    const kolo_loss_kind *kind;
    double number;
} kolo_loss;
typedef struct kolo_metric {
    const kolo_metric_kind *kind;
    double number;
} kolo_metric;
extern const kolo_loss_kind kolo_sparse_crossentropy_kind;
extern const kolo_metric_kind kolo_accuracy_kind;

/* −log softmax(logits)[label], from logits. After a last layer with KOLO_SOFTMAX the same, from its logits. */
#define KOLO_SPARSE_CROSSENTROPY ((kolo_loss){&kolo_sparse_crossentropy_kind, 0})
/* The share of samples whose largest output is the label's; of equal outputs the first counts. */
#define KOLO_ACCURACY    ((kolo_metric){&kolo_accuracy_kind, 0})
#define KOLO_METRICS_MAX 8

#endif
