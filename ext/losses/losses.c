/* Losses of classes: the cross-entropies and what is like them, each from what goes into a softmax or a sigmoid. Read
 * losses/loss.h first; the formulas stand in kolo_losses.h. */
#include "core/error.h"
#include "losses/loss.h"
#include "losses/softmax.h"

#include <math.h>

static kolo_status check_smoothing(int64_t outputs, double number)
{
    (void)outputs;
    if (number >= 0 && number < 1) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "label smoothing: wanted a number from 0 to below 1, got %g", number);
}

kolo_status kolo_loss_without_number(int64_t outputs, double number)
{
    (void)outputs;
    if (number == 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted no number, got %g", number);
}

/* log Σ exp(z) = m + log Σ exp(z − m), with m = max z so that nothing overflows: Goodfellow et al. 2016, "Deep
 * Learning", section 4.1. */
typedef struct softmax {
    const float *z;
    double largest, sum;
} softmax;

static softmax softmax_of(const kolo_row *row)
{
    const float *z = row->outputs;
    softmax s = {.z = z, .largest = (double)z[0]};
    for (int64_t i = 1; i < row->count; i++) s.largest = fmax(s.largest, (double)z[i]);
    for (int64_t i = 0; i < row->count; i++) s.sum += exp((double)z[i] - s.largest);
    return s;
}

static double probability(const softmax *s, int64_t i)
{
    return exp((double)s->z[i] - s->largest) / s->sum;
}

/* What follows, in float32, for rows of many classes. */
static double long_crossentropy(const kolo_row *row, float *gradient)
{
    double smooth = row->number, each = smooth / (double)row->count, drawn = 0;
    float largest;
    double sum = kolo_exponentials(row->outputs, row->count, gradient, &largest);
    for (int64_t i = 0; smooth > 0 && i < row->count; i++) drawn += each * (double)row->outputs[i];
    if (gradient) kolo_scale_row(gradient, row->count, (float)(1 / sum), (float)each);
    if (gradient) gradient[row->label] -= (float)(1 - smooth);
    return (double)largest + log(sum) - (1 - smooth) * (double)row->outputs[row->label] - drawn;
}

/* −log softmax(z)[label] = log Σ exp(z) − z[label]; its gradient by z is softmax(z) − onehot(label): Goodfellow et al.,
 * section 6.2.2.3. Smoothed by α the target is (1 − α) onehot + α / n. */
static double sparse_crossentropy(const kolo_row *row, float *gradient)
{
    if (row->count >= KOLO_LONG_ROW) return long_crossentropy(row, gradient);
    double smooth = row->number, each = smooth / (double)row->count, drawn = 0;
    softmax s = softmax_of(row);
    for (int64_t i = 0; smooth > 0 && i < row->count; i++) drawn += each * (double)s.z[i];
    for (int64_t i = 0; gradient && i < row->count; i++)
        gradient[i] = (float)(probability(&s, i) - each - (i == row->label ? 1 - smooth : 0));
    return s.largest + log(s.sum) - (1 - smooth) * (double)s.z[row->label] - drawn;
}

static double smoothed(const kolo_row *row, int64_t i)
{
    return (1 - row->number) * (double)row->targets[i] + row->number / (double)row->count;
}

/* −Σ t log softmax(z) = Σ t (log Σ exp(z) − z); its gradient by z is (Σ t) softmax(z) − t. */
static double categorical_crossentropy(const kolo_row *row, float *gradient)
{
    softmax s = softmax_of(row);
    double whole = s.largest + log(s.sum), sum = 0, loss = 0;
    for (int64_t i = 0; i < row->count; i++) {
        double t = smoothed(row, i);
        sum += t;
        if (t != 0) loss += t * (whole - (double)s.z[i]); /* 0 · ∞ counts as 0 */
    }
    for (int64_t i = 0; gradient && i < row->count; i++)
        gradient[i] = (float)(sum * probability(&s, i) - smoothed(row, i));
    return loss;
}

/* The cross-entropy less the targets' own entropy −Σ t log t, which z does not change. */
static double kl_divergence(const kolo_row *row, float *gradient)
{
    kolo_row plain = *row;
    plain.number = 0;
    double loss = categorical_crossentropy(&plain, gradient);
    for (int64_t i = 0; i < row->count; i++) {
        double t = (double)row->targets[i];
        if (t > 0) loss += t * log(t);
    }
    return loss;
}

/* −t log σ(z) − (1 − t) log (1 − σ(z)) = max(z, 0) − z t + log (1 + exp(−|z|)), which cannot overflow; its gradient is
 * σ(z) − t. tensorflow.org/api_docs/python/tf/nn/sigmoid_cross_entropy_with_logits */
static double binary_crossentropy(const kolo_row *row, float *gradient)
{
    double n = (double)row->count, loss = 0;
    for (int64_t i = 0; i < row->count; i++) {
        double z = (double)row->outputs[i], small = exp(-fabs(z));
        double t = (1 - row->number) * (double)row->targets[i] + row->number / 2;
        loss += fmax(z, 0) - z * t + log1p(small);
        if (gradient) gradient[i] = (float)(((z >= 0 ? 1 : small) / (1 + small) - t) / n);
    }
    return loss / n;
}

const kolo_loss_kind kolo_sparse_crossentropy_kind = {.name = "sparse_crossentropy",
                                                      .wants = KOLO_WANTS_LABEL,
                                                      .row = sparse_crossentropy,
                                                      .left_out = KOLO_SOFTMAX,
                                                      .check = check_smoothing,
                                                      .smooths = true};
const kolo_loss_kind kolo_categorical_crossentropy_kind = {.name = "categorical_crossentropy",
                                                           .wants = KOLO_WANTS_TARGETS,
                                                           .row = categorical_crossentropy,
                                                           .left_out = KOLO_SOFTMAX,
                                                           .check = check_smoothing,
                                                           .smooths = true};
const kolo_loss_kind kolo_kl_divergence_kind = {.name = "kl_divergence",
                                                .wants = KOLO_WANTS_TARGETS,
                                                .row = kl_divergence,
                                                .left_out = KOLO_SOFTMAX,
                                                .check = kolo_loss_without_number};
const kolo_loss_kind kolo_binary_crossentropy_kind = {.name = "binary_crossentropy",
                                                      .wants = KOLO_WANTS_TARGETS,
                                                      .row = binary_crossentropy,
                                                      .left_out = KOLO_SIGMOID,
                                                      .check = check_smoothing,
                                                      .smooths = true};
