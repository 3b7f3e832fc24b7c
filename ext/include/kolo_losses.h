/* Section 5 of kolo.h, its second half: losses and metrics. Included by kolo.h: read that first. */
#ifndef KOLO_LOSSES_H
#define KOLO_LOSSES_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------ 5 losses, metrics */

/* A loss and a metric: what it is (losses/loss.h; one of the learner's own works the same way: .loss = {&mine}), and a
 * number that some of them take. */
typedef struct kolo_loss_kind kolo_loss_kind;
typedef struct kolo_metric_kind kolo_metric_kind;
typedef struct kolo_loss {
    const kolo_loss_kind *kind;
    double number;
    bool smoothed; /* the number is KOLO_LABEL_SMOOTHING()'s */
} kolo_loss;
typedef struct kolo_metric {
    const kolo_metric_kind *kind;
    double number;
} kolo_metric;
extern const kolo_loss_kind kolo_sparse_crossentropy_kind, kolo_categorical_crossentropy_kind,
    kolo_binary_crossentropy_kind, kolo_kl_divergence_kind, kolo_mse_kind, kolo_mae_kind, kolo_huber_kind,
    kolo_log_cosh_kind;
extern const kolo_metric_kind kolo_accuracy_kind, kolo_binary_accuracy_kind, kolo_categorical_accuracy_kind,
    kolo_top_k_kind, kolo_precision_kind, kolo_recall_kind, kolo_f1_kind, kolo_auc_kind, kolo_metric_mse_kind,
    kolo_metric_mae_kind, kolo_mean_kind;

/* A loss is a function of a row of outputs z (their last axis, n of them) and of what the data says of it: a label, or
 * n targets t. Labels count as targets where those are wanted: one-hot, or with a single output the number itself. The
 * loss of a sample is the mean over its rows times the sample's weight; that of a batch the sum of these divided by the
 * number of samples, as Keras 3 has it ("sum_over_batch_size").
 *
 * The first four work from what goes into a softmax or a sigmoid: a last layer with that activation is trained without
 * it, and one without is taken to give it already (Keras's from_logits). Any other last activation stays. */

/* −log softmax(z)[label]. */
#define KOLO_SPARSE_CROSSENTROPY ((kolo_loss){.kind = &kolo_sparse_crossentropy_kind})
/* −Σ t log softmax(z), for one-hot or soft targets. */
#define KOLO_CATEGORICAL_CROSSENTROPY ((kolo_loss){.kind = &kolo_categorical_crossentropy_kind})
/* Σ t log (t / softmax(z)). */
#define KOLO_KL_DIVERGENCE ((kolo_loss){.kind = &kolo_kl_divergence_kind})
/* The mean over the row of −t log σ(z) − (1 − t) log (1 − σ(z)). Targets are from 0 to 1, others are a sentence. */
#define KOLO_BINARY_CROSSENTROPY ((kolo_loss){.kind = &kolo_binary_crossentropy_kind})
/* One of the cross-entropies with targets drawn towards each other: t ← t (1 − α) + α / n, of the binary one + α / 2.
 * 0 ≤ α < 1. Other losses cannot be smoothed. Szegedy et al. 2016. */
#define KOLO_LABEL_SMOOTHING(loss, alpha) ((kolo_loss){.kind = (loss).kind, .number = alpha, .smoothed = true})
/* Means over the row of (z − t)², of |z − t|, of log cosh (z − t). */
#define KOLO_MSE      ((kolo_loss){.kind = &kolo_mse_kind})
#define KOLO_MAE      ((kolo_loss){.kind = &kolo_mae_kind})
#define KOLO_LOG_COSH ((kolo_loss){.kind = &kolo_log_cosh_kind})
/* Of e²/2 where |e| ≤ δ, else δ|e| − δ²/2, with e = z − t. δ > 0; 0: 1. Huber 1964. */
#define KOLO_HUBER(delta) ((kolo_loss){.kind = &kolo_huber_kind, .number = delta})

/* Metrics are computed beside the loss and do not change the training. The samples' weights do not count in them, as in
 * Keras's `metrics`. Where the loss computes a softmax or a sigmoid itself, those marked p get its result. */
#define KOLO_METRICS_MAX 8
/* Sums over the samples that a model's metrics may keep together; kolo_compile() refuses more with a sentence.
 * Precision, recall and F1 keep three for each class each: one of them alone goes to 341 classes, three go to 113.
 * KOLO_AUC keeps 398, any other metric here one. */
#define KOLO_METRIC_SUMS_MAX 1024
#define KOLO_METRIC_NAME 32 /* bytes of a metric's name, with its 0 */

/* As Keras's "accuracy": with one output KOLO_BINARY_ACCURACY, with several KOLO_CATEGORICAL_ACCURACY. */
#define KOLO_ACCURACY ((kolo_metric){&kolo_accuracy_kind, 0})
/* p: the share of outputs that are on their target's side of 0.5. */
#define KOLO_BINARY_ACCURACY ((kolo_metric){&kolo_binary_accuracy_kind, 0})
/* The share of rows whose largest output is the label's, or the largest target's; of equal ones the first counts. */
#define KOLO_CATEGORICAL_ACCURACY ((kolo_metric){&kolo_categorical_accuracy_kind, 0})
/* The share of rows in which fewer than k outputs are larger than the label's: "top_5_accuracy". 1 ≤ k. */
#define KOLO_TOP_K(k) ((kolo_metric){&kolo_top_k_kind, k})

/* Of rows of several outputs each is counted for the class of its largest output; under KOLO_BINARY_CROSSENTROPY every
 * output is a class of its own that is there above 0.5 (p), and so is a single output. With TP, FP, FN of a class:
 * precision TP / (TP + FP), recall TP / (TP + FN), F1 2 TP / (2 TP + FP + FN); 0 / 0 is 0. As scikit-learn names the
 * averages over classes: */
typedef enum kolo_average {
    KOLO_BINARY = 1, /* of class 1 of two, no average */
    KOLO_MACRO,      /* the mean over the classes */
    KOLO_MICRO,      /* of all classes' counts together */
    KOLO_WEIGHTED    /* the mean over the classes, each by its share of the labels (Spark's multiclass F1) */
} kolo_average;
#define KOLO_PRECISION(average) ((kolo_metric){&kolo_precision_kind, average})
#define KOLO_RECALL(average)    ((kolo_metric){&kolo_recall_kind, average})
#define KOLO_F1(average)        ((kolo_metric){&kolo_f1_kind, average}) /* "f1_score", "f1_score_macro", … */

/* p: the area under the curve of true against false positives, by trapezoids between 200 thresholds, over all outputs
 * together: Keras's AUC(). */
#define KOLO_AUC ((kolo_metric){&kolo_auc_kind, 0})
/* p: the means over all outputs of (y − t)², |y − t| and y itself: "mse", "mae", "mean". */
#define KOLO_METRIC_MSE ((kolo_metric){&kolo_metric_mse_kind, 0})
#define KOLO_METRIC_MAE ((kolo_metric){&kolo_metric_mae_kind, 0})
#define KOLO_MEAN       ((kolo_metric){&kolo_mean_kind, 0})

#endif
