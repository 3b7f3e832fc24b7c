/* The progress of a training. Checkpoints hold it, and kolo_fit(.resume) continues from it. */
#ifndef KOLO_MODEL_POSITION_H
#define KOLO_MODEL_POSITION_H

#include "losses/totals.h"

typedef struct kolo_position {
    int epoch; /* epochs completed */
    int step;  /* steps completed of the epoch after these */
    int64_t samples, batch; /* samples of the data; of a step, over all ranks; 0 before the first epoch */
    /* That unfinished epoch, if it has begun: */
    uint64_t order;       /* its samples' order is drawn by this number (kolo_random_order()) */
    double seconds;       /* the time that the completed steps took */
    kolo_totals all, own; /* sums over the completed steps: of all ranks, of this rank */
} kolo_position;

#endif
