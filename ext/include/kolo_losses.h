/* Section 5 of kolo.h, its second half: losses and metrics. Included by kolo.h: read that first. */
#ifndef KOLO_LOSSES_H
#define KOLO_LOSSES_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------ 5 losses, metrics */

/* A loss and a metric: its kind (defined in losses/loss.h; for your own kind write .loss = {&mine}), and a number that
 * some kinds need. */
typedef struct kolo_loss_kind kolo_loss_kind;
typedef struct kolo_metric_kind kolo_metric_kind;
typedef struct kolo_loss {
    const kolo_loss_kind *kind;
    double number;
    bool smoothed; /* `number` is the alpha of KOLO_LABEL_SMOOTHING() */
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

/* A loss is a function of a row of outputs z (the n outputs of the last axis) and of the row's label or its n targets
 * t. If a loss needs targets and the data have labels, these are converted: one-hot, or with a single output the number
 * itself. The loss of a sample is the mean over its rows, times the sample's weight. The loss of a batch is the sum
 * over its samples divided by their number, as in Keras 3 ("sum_over_batch_size").
 *
 * The first four losses apply softmax, or for the binary one the sigmoid, themselves. If the last layer has that
 * activation, training leaves it out; if it has none, its outputs are the logits (Keras's from_logits). Any other last
 * activation stays. */

/* −log softmax(z)[label]. */
#define KOLO_SPARSE_CROSSENTROPY ((kolo_loss){.kind = &kolo_sparse_crossentropy_kind})
/* −Σ t log softmax(z), for one-hot or soft targets. */
#define KOLO_CATEGORICAL_CROSSENTROPY ((kolo_loss){.kind = &kolo_categorical_crossentropy_kind})
/* Σ t log (t / softmax(z)). */
#define KOLO_KL_DIVERGENCE ((kolo_loss){.kind = &kolo_kl_divergence_kind})
/* The mean over the row of −t log σ(z) − (1 − t) log (1 − σ(z)). A target outside [0, 1] is an error. */
#define KOLO_BINARY_CROSSENTROPY ((kolo_loss){.kind = &kolo_binary_crossentropy_kind})
/* One of the three cross-entropies with label smoothing: t ← t (1 − α) + α / n, for the binary one t (1 − α) + α / 2,
 * with 0 ≤ α < 1. Other losses cannot be smoothed. Szegedy et al. 2016. */
#define KOLO_LABEL_SMOOTHING(loss, alpha) ((kolo_loss){.kind = (loss).kind, .number = alpha, .smoothed = true})
/* Means over the row of (z − t)², of |z − t|, of log cosh (z − t). */
#define KOLO_MSE      ((kolo_loss){.kind = &kolo_mse_kind})
#define KOLO_MAE      ((kolo_loss){.kind = &kolo_mae_kind})
#define KOLO_LOG_COSH ((kolo_loss){.kind = &kolo_log_cosh_kind})
/* The mean over the row of e²/2 where |e| ≤ δ and of δ|e| − δ²/2 elsewhere, with e = z − t. δ > 0; 0 means 1. Huber
 * 1964. */
#define KOLO_HUBER(delta) ((kolo_loss){.kind = &kolo_huber_kind, .number = delta})

/* Metrics are computed beside the loss and do not change the training. The samples' weights do not count in them, as in
 * Keras's `metrics`. If the loss applies the softmax or sigmoid itself, metrics marked "(p)" use its result, the
 * probabilities. */
#define KOLO_METRICS_MAX 8
/* The largest number of sums over samples that all metrics of a model may have together; kolo_compile() fails above it.
 * Precision, recall and F1 have three sums for each class: a model may have one of them with up to 341 classes, or
 * three with up to 113. KOLO_AUC has 398 sums, any other metric here one. */
#define KOLO_METRIC_SUMS_MAX 1024
#define KOLO_METRIC_NAME 32 /* bytes of a metric's name, with its 0 */

/* Keras's "accuracy": KOLO_BINARY_ACCURACY for one output, KOLO_CATEGORICAL_ACCURACY for several. */
#define KOLO_ACCURACY ((kolo_metric){&kolo_accuracy_kind, 0})
/* (p) The share of outputs that lie on the same side of 0.5 as their target. */
#define KOLO_BINARY_ACCURACY ((kolo_metric){&kolo_binary_accuracy_kind, 0})
/* The share of rows whose largest output is that of the label, or of the largest target; the first of equal ones
 * counts. */
#define KOLO_CATEGORICAL_ACCURACY ((kolo_metric){&kolo_categorical_accuracy_kind, 0})
/* The share of rows in which fewer than k outputs are larger than the label's: "top_5_accuracy". k ≥ 1. */
#define KOLO_TOP_K(k) ((kolo_metric){&kolo_top_k_kind, k})

/* Precision, recall and F1. With several outputs, a row predicts the class of its largest output. With a single output,
 * or under KOLO_BINARY_CROSSENTROPY, each output is a separate class, which is predicted above 0.5 (p). From the TP, FP
 * and FN of a class: precision TP / (TP + FP), recall TP / (TP + FN), F1 2 TP / (2 TP + FP + FN); 0 / 0 is 0. The
 * averages over classes have scikit-learn's names: */
typedef enum kolo_average {
    KOLO_BINARY = 1, /* class 1 of two classes; no average */
    KOLO_MACRO,      /* the mean over the classes */
    KOLO_MICRO,      /* computed from the sums of TP, FP and FN over the classes */
    KOLO_WEIGHTED    /* the mean over the classes, weighted by their shares of the labels (Spark's multiclass F1) */
} kolo_average;
#define KOLO_PRECISION(average) ((kolo_metric){&kolo_precision_kind, average})
#define KOLO_RECALL(average)    ((kolo_metric){&kolo_recall_kind, average})
#define KOLO_F1(average)        ((kolo_metric){&kolo_f1_kind, average}) /* "f1_score", "f1_score_macro", … */

/* (p) The area under the ROC curve, by trapezoids between 200 thresholds, over all outputs together: Keras's AUC(). */
#define KOLO_AUC ((kolo_metric){&kolo_auc_kind, 0})
/* (p) The means over all outputs y of (y − t)², |y − t| and y: "mse", "mae", "mean". */
#define KOLO_METRIC_MSE ((kolo_metric){&kolo_metric_mse_kind, 0})
#define KOLO_METRIC_MAE ((kolo_metric){&kolo_metric_mae_kind, 0})
#define KOLO_MEAN       ((kolo_metric){&kolo_mean_kind, 0})

#endif
