/* The state of a running kolo_fit(), and the functions of its parts. */
#ifndef KOLO_TRAINING_FIT_H
#define KOLO_TRAINING_FIT_H

#include "training/callback.h"
#include "training/scores.h"
#include "data/data.h"
#include "replica/workers.h"
#include "show/show.h"

typedef struct kolo_fit_state {
    const kolo_fit_args *args;
    kolo_model *model;
    kolo_trainer *trainer;
    kolo_comm *ranks; /* the ranks that train together */
    double looked, called; /* of a rank that trains alone: when it last looked for ranks that wait for it, and when it
                              first found one */
    const kolo_data *data, *validation; /* the data to train with; the data to validate with, or NULL */
    kolo_data *parts[2];                /* slices of these two, which keep their memory alive while the fit runs */
    kolo_data weighted;                 /* with .class_weight: a copy of the training data with `weights` */
    float *weights;                     /* [samples] */
    int epochs, steps; /* steps of one epoch */
    int *first_batch;  /* [ranks + 1], with .sharded over several ranks: the batches of each in an epoch; else NULL */
    bool validates;    /* there is data to validate with, with .sharded on rank 0 */
    int64_t batch;     /* samples of a full step, over all ranks */
    int microbatch;
    uint64_t seed;     /* rank 0's */
    double epoch_began; /* kolo_now() at the start of the current epoch, plus the time that it was interrupted */
    int32_t *order;    /* [samples], the order of the current epoch's samples, the same on all ranks */
    int32_t *ahead;    /* that of the next epoch, drawn while a device still computes this one; NULL: not used */
    uint64_t ahead_of; /* the number by which `ahead` was drawn; 0: it was not drawn */
    kolo_feeding feeding;
    kolo_epoch_plan plan; /* the batches of the current epoch */
    kolo_order replay, record; /* of a strategy of workers: its .replay, and the order of its exchanges for .record */
    kolo_callback callbacks[KOLO_CALLBACKS_MAX];
    int callback_count;
    kolo_progress progress;
    kolo_totals epoch_all, epoch_own; /* sums over the epoch's steps: of all ranks, of this rank */
    kolo_totals validation_totals;
    bool validated; /* the current epoch was validated */
    kolo_epoch current;
    bool stopped;
    bool record_begun; /* an epoch has begun that was to be recorded */
    bool record_ended; /* an epoch could not be recorded, so the later ones are not */
    bool epoch_anew; /* the epoch in which training stopped begins again: its steps had another size */
    bool diverged; /* the training has diverged, and a warning was printed */
} kolo_fit_state;

/* fit_data.c: opens the data to train and to validate with. The caller closes it, also after a failure. */
kolo_status kolo_fit_open_data(kolo_fit_state *state);
void kolo_fit_close_data(kolo_fit_state *state);

/* Samples of a microbatch, for batches of `samples` over `members` replicas, of which `replicas` are in this process.
 */
int kolo_choose_microbatch(const kolo_model *model, int64_t samples, int replicas, int members);
/* Fails if the model cannot be trained with this data. `call` names the public call in the message. */
kolo_status kolo_check_training(const kolo_model *model, const kolo_data *data, const char *call);

/* fit_plan.c. Checks the arguments, and computes epochs, steps, batch and microbatch. */
kolo_status kolo_fit_plan(kolo_fit_state *state);
/* fit_agree.c. *microbatch becomes the smallest of all ranks: a device may have less memory than another. */
kolo_status kolo_agree_on_microbatch(kolo_comm *ranks, int *microbatch);
/* Makes ranks that train together agree: takes rank 0's seed and the smallest microbatch. Fails if settings that must
 * be equal differ; the message names the setting and the rank. */
kolo_status kolo_fit_agree(kolo_fit_state *state);
/* fit_presence.c. The first collective of ranks that train together. Fails on all ranks if one of them trains alone, or
 * if only some have .sharded. */
kolo_status kolo_fit_open_ranks(const kolo_fit_state *state);
/* For a rank that trains alone among several, often: does not wait. Fails, on all ranks, if another rank waits for this
 * one in kolo_fit_open_ranks(): at once if the callbacks say that this one was to train with others, else once it has
 * waited for the stall limit. */
kolo_status kolo_fit_look_for_ranks(kolo_fit_state *state);
/* Warns of callbacks that have no effect on such a rank, on rank 0, once. */
void kolo_fit_tell_alone(const kolo_fit_state *state);
/* fit_agree_terms.c. Fails unless all ranks have the same settings and callbacks, and the same model. */
kolo_status kolo_fit_agree_on_terms(const kolo_fit_state *state);
/* Fails unless mine[count] is the same on all ranks. The message names the first difference. */
kolo_status kolo_fit_agree_on(kolo_comm *ranks, const int64_t *mine, const char *const *names, int count);
/* The number of callbacks of that name. */
int kolo_fit_count_callbacks(const kolo_fit_state *state, const char *name);
/* fit_agree_data.c. Fails unless all ranks have the same data. */
kolo_status kolo_fit_agree_on_data(const kolo_fit_state *state);
/* Fails on all ranks if one of them has failed, since the others would wait for it. `status` is this rank's. */
kolo_status kolo_fit_agree_to_begin(const kolo_fit_state *state, kolo_status status);
/* With .resume: takes the model's seed. Fails if only some ranks resume, if ranks differ in position or seed, or if the
 * position is within an epoch of other data. An epoch whose steps had another size begins anew. */
kolo_status kolo_fit_begin_at(kolo_fit_state *state);
/* fit_resume.c. With .resume: prints where training continues, and which settings differ from the checkpoint's. */
void kolo_fit_tell_resume(kolo_fit_state *state);
/* fit_workers.c. For strategies of workers: checks and reads what .turns, .replay and .record name; writes the record
 * unless `status` is a failure, and returns the first failure of both; trains one epoch (replica/workers.h). */
kolo_status kolo_fit_open_workers(kolo_fit_state *state);
kolo_status kolo_fit_close_workers(kolo_fit_state *state, kolo_status status);
kolo_status kolo_fit_run_workers(kolo_fit_state *state, int epoch,
                                 kolo_status (*watch)(void *state, bool before, int trained, const kolo_totals *totals),
                                 kolo_workers_outcome *outcome);
/* callbacks.c. All ranks take weights, learning rate and optimizer's state of rank `root`. */
kolo_status kolo_broadcast_all(kolo_model *model, int root);
/* Warns if ranks start with different weights; a strategy that joins the ranks has them take rank 0's instead. */
kolo_status kolo_fit_compare_weights(kolo_fit_state *state);
/* Before each epoch, with workers before the first one: fails unless all ranks have the same learning rate. */
kolo_status kolo_fit_compare_rates(const kolo_fit_state *state);
/* With .check_every: fails on all ranks if one has other weights after so many steps of the epoch. */
kolo_status kolo_fit_check_weights(kolo_fit_state *state, int step);

#endif
