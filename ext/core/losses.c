/* Losses and metrics, each a function of one sample. Read core/loss.h first. */
#include "core/loss.h"

#include <math.h>

/* −log softmax(z)[label] = m + log Σ exp(z − m) − z[label], with m = max z so that nothing overflows;
 * its gradient by z is softmax(z) − onehot(label). Goodfellow et al. 2016, "Deep Learning", section 6.2.2.3. */
static double sparse_crossentropy(const kolo_row *row, float *gradient)
{
    const float *logits = row->outputs;
    int64_t count = row->count;
    int label = row->label;
    double largest = (double)logits[0], sum = 0;
    for (int64_t i = 1; i < count; i++) largest = fmax(largest, (double)logits[i]);
    for (int64_t i = 0; i < count; i++) sum += exp((double)logits[i] - largest);
    for (int64_t i = 0; gradient && i < count; i++) {
        gradient[i] = (float)(exp((double)logits[i] - largest) / sum - (i == label ? 1 : 0));
    }
    return largest + log(sum) - (double)logits[label];
}

static void accuracy(const kolo_row *row, double weight, double *sums)
{
    int64_t best = 0;
    for (int64_t i = 1; i < row->count; i++) {
        if (row->outputs[i] > row->outputs[best]) best = i;
    }
    if (best == row->label) sums[0] += weight;
}

const kolo_loss_kind kolo_sparse_crossentropy_kind = {
    .name = "sparse_crossentropy", .wants = KOLO_WANTS_LABEL, .row = sparse_crossentropy, .left_out = KOLO_SOFTMAX};

const kolo_metric_kind kolo_accuracy_kind = {.name = "accuracy", .wants = KOLO_WANTS_LABEL, .row = accuracy};

int kolo_metric_offset(const kolo_metric *metrics, int m, int64_t outputs)
{
    int offset = 0;
    for (int i = 0; i < m && metrics[i].kind; i++)
        offset += metrics[i].kind->sums ? metrics[i].kind->sums(outputs, metrics[i].number) : 1;
    return offset;
}
