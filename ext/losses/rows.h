/* The formulas of the built-in losses and metrics, for one element of a row or for the sums over a row. The host's
 * loops (the other files of this folder) and the devices' kernels share them, so this file uses only what C and CUDA C
 * have in common. z are the outputs, n of them in a row, t the targets, α the number of a label smoothing.
 */
#ifndef KOLO_LOSSES_ROWS_H
#define KOLO_LOSSES_ROWS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/philox.h"

/* Rows of at least this many outputs compute exponentials in float32, and only their sum in double. */
#define KOLO_LONG_ROW 64

/* The formula of a loss or a metric (losses/formulas.h). */
typedef enum kolo_formula {
    KOLO_FORMULA_NONE, /* a custom loss or metric */
    /* Losses; the first three include a softmax. MSE and MAE are metrics, too. */
    KOLO_FORMULA_SPARSE_CROSSENTROPY,
    KOLO_FORMULA_CATEGORICAL_CROSSENTROPY,
    KOLO_FORMULA_KL_DIVERGENCE,
    KOLO_FORMULA_BINARY_CROSSENTROPY,
    KOLO_FORMULA_MSE,
    KOLO_FORMULA_MAE,
    KOLO_FORMULA_HUBER,
    KOLO_FORMULA_LOG_COSH,
    /* Metrics. */
    KOLO_FORMULA_MEAN,
    KOLO_FORMULA_BINARY_ACCURACY,
    KOLO_FORMULA_CATEGORICAL_ACCURACY,
    KOLO_FORMULA_TOP_K,
    KOLO_FORMULA_COUNT_LARGEST,
    KOLO_FORMULA_COUNT_EACH,
    KOLO_FORMULA_AUC,
    KOLO_FORMULA_KINDS
} kolo_formula;

/* ---- losses of classes ---- */

/* −log softmax(z)[label] = log Σ exp(z) − z[label], with log Σ exp(z) = m + log Σ exp(z − m) and m = max z, so that
 * nothing overflows: Goodfellow et al. 2016, "Deep Learning", sections 4.1 and 6.2.2.3. Smoothed by α the target is
 * (1 − α) onehot + α / n. own: z[label]; drawn: Σ α / n · z. */
KOLO_EVERYWHERE double kolo_sparse_loss(double log_sum, double own, double alpha, double drawn)
{
    return log_sum - (1 - alpha) * own - drawn;
}
/* One element of its gradient with respect to z, softmax(z) − target. own: the element is that of the label. */
KOLO_EVERYWHERE double kolo_sparse_slope(double probability, bool own, double alpha, int64_t n)
{
    return probability - alpha / (double)n - (own ? 1 - alpha : 0);
}

KOLO_EVERYWHERE double kolo_smoothed(double t, double alpha, int64_t n)
{
    return (1 - alpha) * t + alpha / (double)n;
}
/* One term of −Σ t log softmax(z) = Σ t (log Σ exp(z) − z), whose gradient with respect to z is (Σ t) softmax(z) − t.
 * 0 · ∞ counts as 0. */
KOLO_EVERYWHERE double kolo_categorical_part(double t, double z, double log_sum)
{
    return t != 0 ? t * (log_sum - z) : 0;
}
/* One term of Σ t log t, the targets' negative entropy. The divergence is the cross-entropy plus this sum. */
KOLO_EVERYWHERE double kolo_certainty(double t)
{
    return t > 0 ? t * log(t) : 0;
}

/* −t log σ(z) − (1 − t) log (1 − σ(z)) = max(z, 0) − z t + log (1 + exp(−|z|)), which cannot overflow; its gradient is
 * σ(z) − t. tensorflow.org/api_docs/python/tf/nn/sigmoid_cross_entropy_with_logits */
KOLO_EVERYWHERE double kolo_binary_part(double z, double target, double alpha, double *slope)
{
    double t = (1 - alpha) * target + alpha / 2, small = exp(-fabs(z));
    *slope = (z >= 0 ? 1 : small) / (1 + small) - t;
    return fmax(z, 0.0) - z * t + log1p(small);
}

/* ---- losses of numbers: functions of e = z − t, and their slopes ---- */

KOLO_EVERYWHERE double kolo_square(double e, double *slope)
{
    *slope = 2 * e;
    return e * e;
}
/* At e = 0, where |e| has no derivative, the slope is 0, the mean of both sides'. */
KOLO_EVERYWHERE double kolo_absolute(double e, double *slope)
{
    *slope = e != e ? e : (double)((e > 0) - (e < 0));
    return fabs(e);
}
KOLO_EVERYWHERE double kolo_huber_part(double e, double number, double *slope)
{
    double delta = number > 0 ? number : 1;
    bool inside = fabs(e) <= delta;
    *slope = inside ? e : copysign(delta, e);
    return inside ? e * e / 2 : delta * fabs(e) - delta * delta / 2;
}
/* log cosh e = |e| + log (1 + exp(−2|e|)) − log 2, which cannot overflow. */
KOLO_EVERYWHERE double kolo_log_cosh_part(double e, double *slope)
{
    *slope = tanh(e);
    return fabs(e) + log1p(exp(-2 * fabs(e))) - 0.693147180559945309417;
}
/* The term of one element in a loss that is a mean over the row, and its slope: the term's derivative by z. */
KOLO_EVERYWHERE double kolo_mean_part(kolo_formula loss, double z, double t, double number, double *slope)
{
    switch (loss) {
    case KOLO_FORMULA_BINARY_CROSSENTROPY: return kolo_binary_part(z, t, number, slope);
    case KOLO_FORMULA_MAE: return kolo_absolute(z - t, slope);
    case KOLO_FORMULA_HUBER: return kolo_huber_part(z - t, number, slope);
    case KOLO_FORMULA_LOG_COSH: return kolo_log_cosh_part(z - t, slope);
    case KOLO_FORMULA_MSE: return kolo_square(z - t, slope);
    default: return *slope = NAN; /* a formula that is missing here */
    }
}

/* ---- metrics ---- */

KOLO_EVERYWHERE float kolo_sigmoid_of(float z)
{
    return (float)(1 / (1 + exp(-(double)z)));
}
/* Whether an output or a target predicts that its class is there. */
KOLO_EVERYWHERE bool kolo_is_there(float p)
{
    return p > 0.5f;
}

KOLO_EVERYWHERE bool kolo_is_right(float p, float t)
{
    return (p > 0.5f) == (t > 0.5f);
}

/* The counts of each class for precision, recall and F1: TP, TP + FP, TP + FN. */
enum { KOLO_RIGHT, KOLO_CLAIMED, KOLO_TRUE, KOLO_COUNTS };

/* Keras's thresholds: one below 0, i / 199 for i = 1 … 198, one above 1. A prediction p is above the first b + 1 of
 * them, with the bucket b = ⌈199 p⌉ − 1 (at least 0): keras/src/metrics/metrics_utils.py. The metric's sums are the
 * number of false targets in each bucket, then the number of true targets in each bucket. */
#define KOLO_AUC_BUCKETS 199
KOLO_EVERYWHERE int kolo_auc_bucket(float p)
{
    int bucket = (int)ceilf(fminf(fmaxf(p, 0), 1) * KOLO_AUC_BUCKETS) - 1;
    return bucket < 0 ? 0 : bucket;
}

#endif
