/* Sums the gradient over the ranks: whole, as numbers of 16 bits, or embeddings by their rows. */
#ifndef KOLO_REPLICA_RANK_SUM_H
#define KOLO_REPLICA_RANK_SUM_H

#include "replica/replica.h"

/* Both sum the gradient over the ranks: embeddings by the rows that are not zero where kolo_distributed() promises
 * that, everything else by an all-reduce. The first sums the replica's over all members of its group, which is open
 * (kolo_replica_join()); the second only this rank's over trainer->ranks. A rank with one replica may call the first
 * while one with several calls the second: between the ranks they are the same. */
kolo_status kolo_replica_sum_gradient(kolo_replica *replica);
kolo_status kolo_replica_sum_over_ranks(kolo_replica *replica);
/* Sets replica->tables to the embeddings that they may sum by rows, if there are any. Call it when arrays.gradient is
 * there. The caller frees replica->tables. */
kolo_status kolo_replica_find_tables(kolo_replica *replica);
/* Sums the elements first … end-1 of this rank's gradient over `ranks`, all of them, without looking for rows. */
kolo_status kolo_replica_sum_part(kolo_replica *replica, kolo_comm *ranks, int64_t first, int64_t end);

#endif
