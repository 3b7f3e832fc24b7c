/* A fit that runs: what kolo_fit's parts share. */
#ifndef KOLO_CORE_FIT_H
#define KOLO_CORE_FIT_H

#include "core/callback.h"
#include "core/scores.h"
#include "show/show.h"

typedef struct kolo_fit_state {
    const kolo_fit_args *args;
    kolo_model *model;
    kolo_trainer *trainer;
    kolo_comm *ranks; /* that train together */
    int epochs, steps; /* steps an epoch */
    int64_t batch;     /* samples of a full step, over all ranks */
    int leaf;
    uint64_t seed;     /* rank 0's */
    int32_t *order;    /* [samples] of the epoch, the same on all ranks */
    kolo_callback callbacks[KOLO_CALLBACKS_MAX];
    int callback_count;
    kolo_progress progress;
    kolo_engine *scores; /* for validation */
    kolo_totals epoch_all, epoch_own; /* sums over the epoch's steps: of all ranks, of this one */
    kolo_totals validation;
    kolo_epoch current;
    bool stopped;
    bool diverged; /* and said so */
} kolo_fit_state;

/* Checks the arguments and works out epochs, steps, batch and leaf. */
kolo_status kolo_fit_plan(kolo_fit_state *state);
/* Ranks that train together must mean the same: takes rank 0's seed and leaf, and names whoever differs in what must
 * be equal. */
kolo_status kolo_fit_agree(kolo_fit_state *state);
/* Warns if ranks start from different weights. */
kolo_status kolo_fit_compare_weights(kolo_fit_state *state);

#endif
