/* Structs that the host and a device's kernels share, in the common subset of C and CUDA C. stream.h and update.h use
 * them. */
#ifndef KOLO_BACKEND_STEP_PARAMETERS_H
#define KOLO_BACKEND_STEP_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/samples.h"
#include "optimizers/rules.h"

#define KOLO_STEPS_AHEAD 8 /* steps that the host may be ahead of the device */

/* The numbers that change from step to step. They are in the stream's memory, where a captured step reads them. The
 * host writes them into a ring of KOLO_STEPS_AHEAD elements, from which each step takes its own: take_step_parameters()
 * of stream.h. */
typedef struct kolo_step_parameters {
    int64_t slot; /* the number of the element in the ring that these numbers were taken from; the next step takes the
                     one behind it */
    /* Sample b of the batch is number order[first + b] of the kolo_sources, or first + b without an order. `first`
     * is negative if the arrays begin with a later sample of the batch. */
    int64_t first;
    int64_t samples; /* samples of the batch, over all replicas and ranks */
    uint64_t step, seed; /* for random numbers: dropout, augmentation */
    double loss_scale; /* multiplies d loss / d outputs; not 0 when a kernel reads it */
    double scale; /* the sum of gradients · scale is their mean: 1 / n / sample_scale, for the update's n samples */
    double per_sample; /* 1 / n, for sums that the loss scale does not multiply: running means */
    double rule[KOLO_RULE_NUMBERS]; /* the numbers of the optimizer's rule for this update (optimizers/rules.h) */
    int64_t update; /* the number of this update, from 1 */
    /* The members from here on are for a kolo_scaling. They stay in the ring. */
    int64_t updates; /* updates that the host has read back; rule[] is for update number updates + 1 */
    double later[KOLO_STEPS_AHEAD][KOLO_RULE_NUMBERS]; /* rule[] for update number updates + 2, and so on */
} kolo_step_parameters;

/* The state of loss scaling, in the stream's memory. The device finds overflows and then skips the update; the host
 * reads that back up to KOLO_STEPS_AHEAD steps later. With a kolo_scaling the host therefore sends incomplete step
 * parameters: loss_scale is 1 / samples, or 0 if the update began with an earlier batch (.accumulate_steps). The device
 * fills in loss_scale, scale, rule and update. */
typedef struct kolo_scaling {
    double loss_scale, sample_scale; /* these two and the next two as in kolo_counters */
    int64_t good, updates;
    int64_t updates_before; /* the number of updates when the current batch began */
    int64_t tried; /* updates, skipped ones included */
} kolo_scaling;

/* One parameter in the flat arrays of all weights: elements offset … offset+count-1. */
typedef struct kolo_span {
    int64_t offset, count;
    float l2; /* 2λ: l2 · w is added to the mean gradient */
    double penalty; /* λ: penalty · w² is added to the loss */
    double momentum; /* > 0: the array is a running mean, and its "gradient" is the batch's mean · samples */
    bool vector; /* it has one axis: a bias or a scale */
} kolo_span;

#endif
