/* Workers: replicas that train on batches of their own and exchange weights with a centre (center.h). This part runs
 * the workers of one process. With kolo_distributed() each rank has workers; the centre is on rank 0, and the workers
 * of other ranks reach it by center_link.h.
 */
#ifndef KOLO_REPLICA_WORKERS_H
#define KOLO_REPLICA_WORKERS_H

#include "data/feed.h"
#include "replica/center.h"
#include "replica/trainer.h"

/* Opens and closes the trainer's workers; nothing for other strategies. Closing waits on rank 0 until the other ranks
 * know all that it has shared. */
kolo_status kolo_workers_open(kolo_trainer *trainer);
/* Connects the workers of several ranks with the centre, unless they are. All ranks call it, and it fails on all if it
 * fails on one. */
kolo_status kolo_workers_link(kolo_trainer *trainer);
void kolo_workers_close(kolo_trainer *trainer);
/* The centre begins with the model's weights; copies the centre's to the model. A callback may call the second one
 * while other workers train. On other ranks than 0: nothing; the weights of kolo_workers_train(). After an epoch that
 * failed, parts that other ranks keep (.servers) are as they were before it. */
void kolo_workers_store(kolo_trainer *trainer);
kolo_status kolo_workers_fetch(kolo_trainer *trainer);
/* Fetches the weights, and says whether all of them are finite. */
kolo_status kolo_workers_are_finite(kolo_trainer *trainer, bool *finite);
/* Whether the epoch that is trained on has failed, on rank 0. */
bool kolo_workers_have_failed(const kolo_trainer *trainer);
/* On rank 0: sets gone[workers] for the workers of all ranks that are gone. */
void kolo_workers_mark_lost(kolo_trainer *trainer, bool *gone);

/* The members of an ensemble, on rank 0: how many there are; a member's weights; its mean loss in an epoch of the last
 * fit, NaN if it trained on nothing or there was no such epoch. */
int kolo_workers_members(const kolo_trainer *trainer); /* 0 on other ranks, and if nothing was trained */
void kolo_workers_member(const kolo_trainer *trainer, int member, float *weights);
double kolo_workers_loss(const kolo_trainer *trainer, int member, int epoch);

/* An epoch of all workers. */
typedef struct kolo_workers_run {
    const kolo_epoch_plan *plan; /* its samples are those of this rank's shard; its steps those of all ranks */
    int number;              /* of the epoch in this fit, from 0 */
    int window;              /* batches between two exchanges of a worker */
    const kolo_turns *turns; /* the order of exchanges; NULL: as it happens */
    kolo_turns *record;      /* gets the exchanges that happen; NULL: nobody wants them */
    kolo_shards shards;      /* with .sharded: those of the ranks */
    /* Called on rank 0 by the thread of its first worker, which is the caller's, before and after each of its batches.
     * trained: batches that all workers have trained on; totals: of these. */
    kolo_status (*watch)(void *watcher, bool before, int trained, const kolo_totals *totals);
    void *watcher;
} kolo_workers_run;

/* What an epoch of all workers gave, the same on all ranks. */
typedef struct kolo_workers_outcome {
    int trained, lost; /* batches that were trained on; workers that are gone since the beginning */
    bool stopped; /* before the end of the epoch. Without it, batches of lost workers may be missing */
    kolo_totals totals;
} kolo_workers_outcome;

/* Returns when all batches are trained on and exchanged; KOLO_INTERRUPTED after a requested stop. Sets *outcome on rank
 * 0 also after a failure. */
kolo_status kolo_workers_train(kolo_trainer *trainer, const kolo_workers_run *run, kolo_workers_outcome *outcome);

/* Rank 0 tells the other ranks what it knows after an epoch; they wait for it. Nothing with one rank. */
kolo_status kolo_workers_share(kolo_trainer *trainer, void *news, size_t bytes);

#endif
