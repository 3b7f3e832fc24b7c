/* Rounds through a model's arrays: what an update, and the sum that it begins with, are made of.
 *
 * Arrays are cut into chunks that fit in a core's cache. Each worker takes a run of chunks: the threads of one replica,
 * or of all replicas of the process where they share the work (kolo_weight_placement in strategy.h). */
#ifndef KOLO_REPLICA_ROUNDS_H
#define KOLO_REPLICA_ROUNDS_H

#include "training/trainer.h"

/* Elements first … first+count-1 of a parameter, which begin with that chunk. */
typedef struct kolo_piece {
    const kolo_parameter *parameter;
    int number;
    int64_t first, count, chunk;
} kolo_piece;

/* Calls work(argument, piece) for all that is this replica's to do: nothing where another does it. `whole`: pieces may
 * be of many chunks. Does not wait for other replicas. */
kolo_status kolo_round(kolo_replica *replica, bool whole, void (*work)(void *argument, const kolo_piece *piece),
                       void *argument);

/* kolo_replica_update() by rounds through the host's arrays, which must hold the weights and the gradient's sum. */
kolo_status kolo_replica_update_on_host(kolo_replica *replica);

/* Chunks of a parameter, and of all before it. */
int64_t kolo_chunks(const kolo_parameter *parameter);
int64_t kolo_chunks_before(const kolo_model *model, int number);

/* Waits for all replicas of the process that run. */
kolo_status kolo_replica_wait(kolo_replica *replica);
/* Waits for the replicas that the weights are shared with, if any. */
kolo_status kolo_replica_meet(kolo_replica *replica);

#endif
