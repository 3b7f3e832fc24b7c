/* Records of workers: what a worker has of its own between two epochs, from which a training goes on as if it had not
 * been interrupted. Checkpoints hold them (saving/checkpoint.h). */
#ifndef KOLO_REPLICA_WORKER_RECORDS_H
#define KOLO_REPLICA_WORKER_RECORDS_H

#include "replica/trainer.h"

/* Planes are arrays with an element for each weight, in this order: the worker's weights; .memory, if the strategy has
 * it; the optimizer's slots, unless it updates the centre; gradients that wait for an update, with .accumulate_steps.
 */
typedef struct kolo_worker_record {
    kolo_counters counters;
    int64_t behind; /* exchanges of other workers since its last one */
    float values[]; /* [planes][weight_count]; then [parameter_count], for optimizers with numbers */
} kolo_worker_record;

#define KOLO_WORKER_PLANES (KOLO_OPTIMIZER_SLOTS + 3)

int kolo_worker_planes(const kolo_trainer *trainer);
bool kolo_worker_has_numbers(const kolo_trainer *trainer);
size_t kolo_worker_record_bytes(const kolo_trainer *trainer);

/* The number of workers of all ranks; 0: the strategy has none. */
int kolo_workers_count(const kolo_trainer *trainer);
/* Writes the records of this process's workers, and gives those of all: records[kolo_workers_count()], on rank 0.
 * *records becomes NULL where they are not all known: on other ranks, within an epoch, before the first one, or when a
 * worker is gone. */
kolo_status kolo_workers_note(kolo_trainer *trainer, kolo_worker_record *const **records);
/* Room for records[kolo_workers_count()] that a checkpoint has, from which kolo_workers_resume() goes on. */
kolo_status kolo_workers_expect(kolo_trainer *trainer, kolo_worker_record *const **records);
/* Workers begin anew: a checkpoint has no records for them. */
void kolo_workers_forget(kolo_trainer *trainer);
/* Called by all ranks before the first epoch of a kolo_fit() with .resume. Workers continue from the records of
 * expect(), which a checkpoint gave, or from those of keep(), which are their state before this fit. Without records on
 * all ranks it does nothing. */
kolo_status kolo_workers_keep(kolo_trainer *trainer);
kolo_status kolo_workers_resume(kolo_trainer *trainer);
/* At the end of an epoch: brings the records of other ranks to rank 0. The first is called by those ranks before they
 * hear the epoch's news, the second by rank 0 after it has told them. */
kolo_status kolo_workers_send_records(kolo_trainer *trainer);
kolo_status kolo_workers_await_records(kolo_trainer *trainer);

#endif
