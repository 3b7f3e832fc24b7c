/* A fit that runs: what kolo_fit's parts share. */
#ifndef KOLO_TRAINING_FIT_H
#define KOLO_TRAINING_FIT_H

#include "training/callback.h"
#include "training/scores.h"
#include "data/data.h"
#include "show/show.h"

typedef struct kolo_fit_state {
    const kolo_fit_args *args;
    kolo_model *model;
    kolo_trainer *trainer;
    kolo_comm *ranks; /* that train together */
    const kolo_data *data, *validation; /* what is trained; what is validated, or NULL */
    kolo_data *parts[2];                /* these two, held while the fit runs */
    kolo_data weighted;                 /* the data under .class_weight, with these: */
    float *weights;
    int epochs, steps; /* steps an epoch */
    int64_t batch;     /* samples of a full step, over all ranks */
    int microbatch;
    uint64_t seed;     /* rank 0's */
    double epoch_began; /* of the epoch that runs; pauses left out */
    int32_t *order;    /* [samples] of the epoch, the same on all ranks */
    int32_t *ahead;    /* of the next one, drawn while a device is still at work on this one; NULL: there is none */
    uint64_t ahead_of; /* which one is drawn; 0: none */
    kolo_feeding feeding;
    kolo_epoch_plan plan; /* of the epoch that runs */
    kolo_callback callbacks[KOLO_CALLBACKS_MAX];
    int callback_count;
    kolo_progress progress;
    kolo_totals epoch_all, epoch_own; /* sums over the epoch's steps: of all ranks, of this one */
    kolo_totals validation_totals;
    bool validated; /* after this epoch */
    kolo_epoch current;
    bool stopped;
    bool diverged; /* and said so */
} kolo_fit_state;

/* fit_data.c: the data to train and to validate with. To be closed also when opening failed. */
kolo_status kolo_fit_open_data(kolo_fit_state *state);
void kolo_fit_close_data(kolo_fit_state *state);

/* Samples of a microbatch, for batches of `samples` over all ranks. */
int kolo_choose_microbatch(const kolo_model *model, int64_t samples, int replicas, int ranks);
/* Whether it can be trained, with those data. */
kolo_status kolo_check_training(const kolo_model *model, const kolo_data *data, const char *call);

/* Checks the arguments and works out epochs, steps, batch and microbatch. */
kolo_status kolo_fit_plan(kolo_fit_state *state);
/* The smallest of all ranks': a device may have less memory than another's. */
kolo_status kolo_agree_on_microbatch(kolo_comm *ranks, int *microbatch);
/* Ranks that train together must mean the same: takes rank 0's seed and the smallest microbatch, and names whoever
 * differs in what must be equal. */
kolo_status kolo_fit_agree(kolo_fit_state *state);
/* Whether all are ready; `status` is this one's. Where one is not, all fail: else they would wait for it. */
kolo_status kolo_fit_agree_to_begin(const kolo_fit_state *state, kolo_status status);
/* Where training begins, which is the same on all ranks, and fits the data: the model's position, and its seed. */
kolo_status kolo_fit_begin_at(kolo_fit_state *state);
/* Says so where training goes on from a position, and in what it is now another than it was there. */
void kolo_fit_tell_resume(kolo_fit_state *state);
/* Warns if ranks start from different weights. */
kolo_status kolo_fit_compare_weights(kolo_fit_state *state);

#endif
