/* Structs that the host and a device's kernels share, in the common part of C and CUDA C. stream.h and update.h use
 * them. */
#ifndef KOLO_BACKEND_STEP_PARAMETERS_H
#define KOLO_BACKEND_STEP_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#include "optimizers/rules.h"

#define KOLO_STEPS_AHEAD 8 /* steps that the host may be ahead of the device */

/* The numbers that change from step to step. They lie in the stream's memory, where a captured step reads them. */
typedef struct kolo_step_parameters {
    int64_t first; /* the batch's first sample: an index into kolo_sources.order, or into the data set without one */
    int64_t samples; /* samples of the batch, over all replicas and ranks */
    uint64_t step, seed; /* for random numbers: dropout, augmentation */
    double loss_scale; /* multiplies d loss / d outputs; never 0 here */
    double scale; /* the sum of gradients · scale is their mean: 1 / samples / sample_scale */
    double per_sample; /* 1 / samples, for sums that the loss scale does not reach: running means */
    double rule[KOLO_RULE_NUMBERS]; /* the numbers of the optimizer's rule for this update (optimizers/rules.h) */
    int64_t update; /* the number of this update, from 1 */
    /* The members from here on are for a kolo_scaling. Without one they are not copied. */
    int64_t updates; /* finished updates that the host knows of; rule[] is for update number updates + 1 */
    double later[KOLO_STEPS_AHEAD][KOLO_RULE_NUMBERS]; /* rule[] for the updates after that */
} kolo_step_parameters;

/* The state of loss scaling, in the stream's memory. The device learns of overflows, and so of skipped updates; the
 * host lags by up to KOLO_STEPS_AHEAD steps. With a kolo_scaling the host therefore sends incomplete step parameters:
 * loss_scale is 1 / samples, or 0 if the update began with an earlier batch (.accumulate_steps), and the device fills
 * in loss_scale, scale and rule. */
typedef struct kolo_scaling {
    double loss_scale, sample_scale; /* these four as in kolo_counters */
    int64_t good, updates;
    int64_t before; /* the number of updates when the current batch began */
    int64_t tried; /* updates, skipped ones included */
} kolo_scaling;

/* A data set whose arrays are in the device's memory, as they are stored. One kind of features is set, the others are
 * NULL. */
typedef struct kolo_sources {
    const uint8_t *bytes; /* feature = byte · scale */
    const float *floats;
    const int32_t *tokens; /* gathered as floats */
    float scale;
    const int32_t *labels; /* [samples][label_count] */
    int label_count;
    const float *targets; /* [samples][outputs]; NULL: of the labels, one-hot, or as they are with one output each */
    bool autoencoder; /* the targets are the features */
    const float *weights; /* [samples]; NULL: all 1 */
    int64_t elements; /* of one sample's features */
    const int32_t *order; /* [samples of an epoch], the samples' numbers; NULL: in the order of the data set */
} kolo_sources;

/* The destination of a gathered microbatch. An array that is not wanted is NULL. */
typedef struct kolo_microbatch_arrays {
    float *features;
    int32_t *labels;
    float *targets;
    float *weights;
    int64_t outputs; /* numbers of one sample's targets */
} kolo_microbatch_arrays;

/* One parameter in the flat arrays of all weights: elements offset … offset+count-1. */
typedef struct kolo_span {
    int64_t offset, count;
    float l2; /* 2λ: l2 · w is added to the mean gradient */
    double penalty; /* λ: penalty · w² is added to the loss */
    double momentum; /* > 0: the array is a running mean, and its "gradient" is the batch's mean */
    bool vector; /* it has one axis: a bias or a scale */
} kolo_span;

#endif
