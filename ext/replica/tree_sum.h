/* The sum of a batch's gradients that has the same bits for any number of devices and ranks. */
#ifndef KOLO_REPLICA_TREE_SUM_H
#define KOLO_REPLICA_TREE_SUM_H

#include "replica/trainer.h"

/* Replica's gradient and totals become those of the whole batch; called by every replica of every rank that trains
 * together, after kolo_replica_compute. */
kolo_status kolo_tree_sum(kolo_replica *replica);

/* The same for totals alone: what is left in each rank's reduction, summed for all of them. */
kolo_status kolo_tree_totals(kolo_comm *ranks, kolo_reduction *reduction, int64_t microbatches, kolo_totals *totals);

#endif
