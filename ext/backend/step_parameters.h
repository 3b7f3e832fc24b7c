/* Plain data that the host and a device's own kernels share: no more than C and CUDA C have in common. What they are
 * for stands in stream.h and update.h. */
#ifndef KOLO_BACKEND_STEP_PARAMETERS_H
#define KOLO_BACKEND_STEP_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#include "optimizers/rules.h"

#define KOLO_STEPS_AHEAD 8 /* steps that the host may be ahead of the device */

/* What a recorded step is told: it lies in the device's memory and changes from step to step. */
typedef struct kolo_step_parameters {
    int64_t first;   /* the number, in kolo_sources.order or of the data set, of the batch's first sample */
    int64_t samples; /* of the batch, over all replicas and ranks */
    uint64_t step, seed; /* for chance */
    double loss_scale; /* of d loss / d outputs: never 0 here */
    double scale;      /* the sum of gradients times this is their mean; */
    double share;      /* the same for what no loss scale reaches */
    double rule[KOLO_RULE_NUMBERS]; /* what the optimizer's rule takes of this update */
    int64_t update; /* the number of this update, from 1 */
    /* From here on for a kolo_scaling alone, else not even copied: */
    int64_t updates; /* that the host knows of: rule is of the one after them, */
    double later[KOLO_STEPS_AHEAD][KOLO_RULE_NUMBERS]; /* and these are of those behind it */
} kolo_step_parameters;

/* The loss's scale as the device keeps it: which updates are left out it finds out while the host is steps ahead. The
 * step parameters then comes without: its loss_scale is what a sample gets of the loss's (1 / samples), or 0 where the
 * update has begun with an earlier batch, and the device fills in loss_scale, scale and rule. */
typedef struct kolo_scaling {
    double loss_scale, sample_scale; /* as kolo_counters has them, */
    int64_t good, updates;
    int64_t before; /* updates when the batch at hand began */
    int64_t tried;  /* those that were left out counted, too */
} kolo_scaling;

/* A data set whose arrays lie on the device, as they are stored: one kind of features, the others NULL. */
typedef struct kolo_sources {
    const uint8_t *bytes; /* feature = byte · scale */
    const float *floats;
    const int32_t *tokens; /* as floats */
    float scale;
    const int32_t *labels; /* [samples][label_count] */
    int label_count;
    const float *targets; /* [samples][outputs]; NULL: labels, one-hot, or as they are where a label has one number */
    bool autoencoder;     /* targets are the features */
    const float *weights; /* [samples]; NULL: all 1 */
    int64_t elements;     /* of one sample's features */
    const int32_t *order; /* [samples of an epoch]; NULL: as they stand */
} kolo_sources;

/* Where samples of a microbatch go; NULL for what is not wanted. */
typedef struct kolo_microbatch_arrays {
    float *features;
    int32_t *labels;
    float *targets;
    float *weights;
    int64_t outputs; /* numbers of one sample's targets */
} kolo_microbatch_arrays;

/* An array of weights among all: elements offset … offset+count-1. */
typedef struct kolo_span {
    int64_t offset, count;
    float l2;        /* 2λ: what is added to the mean gradient is l2 · w */
    double penalty;  /* λ: what is added to the loss is penalty · w² */
    double momentum; /* > 0: a running mean, which takes in its "gradient" */
    bool vector;     /* of one axis */
} kolo_span;

#endif
