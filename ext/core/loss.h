/* What a loss and a metric are. One of a learner's own is the same struct: a function of one sample. */
#ifndef KOLO_CORE_LOSS_H
#define KOLO_CORE_LOSS_H

#include <kolo.h>

struct kolo_loss_kind {
    const char *name; /* as messages print it: "sparse_crossentropy" */
    /* The loss of one sample, and d loss / d outputs into gradient[outputs] unless NULL. label is in
     * 0 … outputs-1: checked before. */
    double (*sample)(const float *outputs, int64_t count, int label, float *gradient);
    bool from_logits; /* a last layer's softmax is left out before it */
};

struct kolo_metric_kind {
    const char *name; /* as the progress bar prints it: "accuracy" */
    double (*sample)(const float *outputs, int64_t count, int label);
};

#endif
