/* Workers: replicas that train on batches of their own and exchange weights with a centre. See strategy/strategy.h for
 * what a strategy does in an exchange. This part deals out the batches, lets the workers exchange one at a time and in
 * order, and counts. */
#ifndef KOLO_REPLICA_WORKERS_H
#define KOLO_REPLICA_WORKERS_H

#include <pthread.h>

#include "data/feed.h"
#include "replica/turns.h"
#include "replica/trainer.h"

typedef enum kolo_epoch_end { KOLO_EPOCH_STOPPED = 1, KOLO_EPOCH_FAILED } kolo_epoch_end;

/* What the workers of a process share. The lock guards all of it while an epoch runs. */
struct kolo_center {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* `turn` or `ended` has changed */
    float *weights;         /* [weight_count] */
    int64_t exchanges;      /* since the trainer was opened */
    int64_t updates;        /* of the centre's weights by the optimizer (.updates_center) */
    double learning_rate;   /* for the next batches */
    kolo_turns *record;     /* where this epoch's exchanges are noted; NULL: they are not */
    int turn;               /* the number of the next exchange of this epoch */
    int taken, trained;     /* batches of this epoch that workers have taken, and have trained on */
    kolo_epoch_end ended;   /* why the epoch is over for all workers; zero: it is not */
    kolo_totals totals;     /* over this epoch's batches so far */
};

/* Opens and closes the trainer's centre, and each worker's side of it; nothing for other strategies. */
kolo_status kolo_center_open(kolo_trainer *trainer);
void kolo_center_close(kolo_trainer *trainer);
/* The centre and all workers begin with the model's weights. */
void kolo_center_set(kolo_trainer *trainer);
/* Copies the centre to the model's weights. A callback may call it while the other workers train. */
void kolo_center_fetch(kolo_trainer *trainer);
/* Whether all of the centre's weights are finite. */
kolo_status kolo_center_is_finite(kolo_trainer *trainer, bool *finite);

/* An epoch of all workers. */
typedef struct kolo_workers_run {
    const kolo_epoch_plan *plan;
    int window;              /* batches between two exchanges of a worker */
    const kolo_turns *turns; /* the order of exchanges; NULL: as it happens */
    kolo_turns *record;      /* gets the exchanges that happen; NULL: nobody wants them */
    /* Called by worker 0's thread, which is the caller's, before and after each of its batches. trained: batches that
     * all workers have trained on; totals: of these. */
    kolo_status (*watch)(void *watcher, bool before, int trained, const kolo_totals *totals);
    void *watcher;
} kolo_workers_run;

/* Returns when all batches are trained on and exchanged; KOLO_INTERRUPTED after a requested stop. *totals are those of
 * the batches that were trained on, also after a failure. */
kolo_status kolo_workers_train(kolo_trainer *trainer, const kolo_workers_run *run, kolo_totals *totals);

#endif
