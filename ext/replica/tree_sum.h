/* The sum of a batch's gradients that has the same bits for any number of devices and ranks. */
#ifndef KOLO_REPLICA_TREE_SUM_H
#define KOLO_REPLICA_TREE_SUM_H

#include "replica/trainer.h"

/* The replica's gradient and totals become those of the whole batch. Every replica of every rank of the training calls
 * it after kolo_replica_compute(). */
kolo_status kolo_tree_sum(kolo_replica *replica);

/* Sums totals alone: *totals becomes the sum of those in all ranks' reduction trees. */
kolo_status kolo_tree_totals(kolo_comm *ranks, kolo_reduction *reduction, int64_t microbatches, kolo_totals *totals);

#endif
