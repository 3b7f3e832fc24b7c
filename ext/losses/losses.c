/* Losses of classes: the cross-entropies and the Kullback-Leibler divergence, computed from the inputs of a softmax or
 * a sigmoid. Read losses/loss.h first; losses/rows.h has the formulas. */
#include "core/error.h"
#include "losses/loss.h"
#include "losses/rows.h"
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

/* The term of label smoothing, Σ α / n · z. */
static double drawn_from(const kolo_row *row)
{
    double each = row->number / (double)row->count, drawn = 0;
    for (int64_t i = 0; each > 0 && i < row->count; i++) drawn += each * (double)row->outputs[i];
    return drawn;
}

/* The same as sparse_crossentropy() below, in float32, for rows of many classes. */
static double long_crossentropy(const kolo_row *row, float *gradient)
{
    double smooth = row->number, each = smooth / (double)row->count;
    float largest;
    double sum = kolo_exponentials(row->outputs, row->count, gradient, &largest);
    if (gradient) kolo_scale_row(gradient, row->count, (float)(1 / sum), (float)each);
    if (gradient) gradient[row->label] -= (float)(1 - smooth);
    return kolo_sparse_loss((double)largest + log(sum), (double)row->outputs[row->label], smooth, drawn_from(row));
}

static double sparse_crossentropy(const kolo_row *row, float *gradient)
{
    if (row->count >= KOLO_LONG_ROW) return long_crossentropy(row, gradient);
    softmax s = softmax_of(row);
    for (int64_t i = 0; gradient && i < row->count; i++)
        gradient[i] = (float)kolo_sparse_slope(probability(&s, i), i == row->label, row->number, row->count);
    return kolo_sparse_loss(s.largest + log(s.sum), (double)s.z[row->label], row->number, drawn_from(row));
}

static double smoothed(const kolo_row *row, int64_t i)
{
    return kolo_smoothed((double)row->targets[i], row->number, row->count);
}

static double categorical_crossentropy(const kolo_row *row, float *gradient)
{
    softmax s = softmax_of(row);
    double log_sum = s.largest + log(s.sum), sum = 0, loss = 0;
    for (int64_t i = 0; i < row->count; i++) {
        double t = smoothed(row, i);
        sum += t;
        loss += kolo_categorical_part(t, (double)s.z[i], log_sum);
    }
    for (int64_t i = 0; gradient && i < row->count; i++)
        gradient[i] = (float)(sum * probability(&s, i) - smoothed(row, i));
    return loss;
}

/* The cross-entropy minus the targets' entropy, which does not depend on z. */
static double kl_divergence(const kolo_row *row, float *gradient)
{
    kolo_row plain = *row;
    plain.number = 0;
    double loss = categorical_crossentropy(&plain, gradient);
    for (int64_t i = 0; i < row->count; i++) loss += kolo_certainty((double)row->targets[i]);
    return loss;
}

static double binary_crossentropy(const kolo_row *row, float *gradient)
{
    double n = (double)row->count, loss = 0, slope;
    for (int64_t i = 0; i < row->count; i++) {
        loss += kolo_binary_part((double)row->outputs[i], (double)row->targets[i], row->number, &slope);
        if (gradient) gradient[i] = (float)(slope / n);
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
