/* Losses and metrics, each a function of one sample. Read core/loss.h first. */
#include "core/loss.h"

#include <math.h>

/* −log softmax(z)[label] = m + log Σ exp(z − m) − z[label], with m = max z so that nothing overflows;
 * its gradient by z is softmax(z) − onehot(label). Goodfellow et al. 2016, "Deep Learning", section 6.2.2.3. */
static double sparse_crossentropy(const float *logits, int64_t count, int label, float *gradient)
{
    double largest = (double)logits[0], sum = 0;
    for (int64_t i = 1; i < count; i++) largest = fmax(largest, (double)logits[i]);
    for (int64_t i = 0; i < count; i++) sum += exp((double)logits[i] - largest);
    for (int64_t i = 0; gradient && i < count; i++) {
        gradient[i] = (float)(exp((double)logits[i] - largest) / sum - (i == label ? 1 : 0));
    }
    return largest + log(sum) - (double)logits[label];
}

static double accuracy(const float *outputs, int64_t count, int label)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        if (outputs[i] > outputs[best]) best = i;
    }
    return best == label ? 1 : 0;
}

const struct kolo_loss_kind kolo_sparse_crossentropy_kind = {
    .name = "sparse_crossentropy",
    .sample = sparse_crossentropy,
    .from_logits = true,
};

const struct kolo_metric_kind kolo_accuracy_kind = {.name = "accuracy", .sample = accuracy};
