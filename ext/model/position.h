/* Where a training stands: what kolo_fit(.resume) goes on from, and a checkpoint holds. */
#ifndef KOLO_MODEL_POSITION_H
#define KOLO_MODEL_POSITION_H

#include "losses/totals.h"

typedef struct kolo_position {
    int epoch; /* epochs completed */
    int step;  /* steps of the next one that are done */
    int64_t samples, batch; /* in the data; in a step, over all ranks; 0 before the first epoch */
    /* Of that epoch, where step > 0: */
    uint64_t order;       /* the name of its samples' order */
    double seconds;       /* that its steps took */
    kolo_totals all, own; /* sums over those steps: of all ranks, of this one */
} kolo_position;

#endif
