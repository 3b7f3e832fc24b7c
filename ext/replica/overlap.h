/* Overlap: the gradient is summed over the group in buckets (engine/buckets.h) while the backward pass still runs.
 *
 * On the host's stream the replicas of a process that add their gradients up in one tree use the same buckets. The
 * thread that completes a bucket starts its all-reduce over the ranks in the ranks' queue (comm/queue.h). The last
 * bucket cannot be hidden, so replica 0 sums it directly after the backward pass.
 *
 * Where work is enqueued, each replica has buckets of its own, and a second stream sums them (second_stream.h).
 */
#ifndef KOLO_REPLICA_OVERLAP_H
#define KOLO_REPLICA_OVERLAP_H

#include "replica/trainer.h"

typedef struct kolo_overlap kolo_overlap;

/* Opens trainer->overlap for the engines of the running replicas; it stays NULL where there is an obstacle, where
 * .bucket_bytes or the default says so, and for small models. */
kolo_status kolo_overlap_open(kolo_trainer *trainer);
void kolo_overlap_close(kolo_trainer *trainer);
/* The same with buckets of `bytes` bytes, KOLO_NONE or 0 (the model's .bucket_bytes) from now on, also for engines that
 * are opened later. On the host's stream only, and between steps. No step overlaps until kolo_overlap_agree(). */
kolo_status kolo_overlap_reopen(kolo_trainer *trainer, int64_t bytes);

/* Why this rank cannot overlap, as a clause for a sentence: without other members, in deterministic mode, for a model
 * that is placed on several devices, with strategies that do not sum in every step, ... NULL: it can. */
const char *kolo_overlap_obstacle(const kolo_trainer *trainer);
/* A hash of where the buckets begin, in their order; 0 without overlap. */
uint64_t kolo_overlap_digest(const kolo_trainer *trainer);
/* Collective: whether all ranks have given the same value; false after a failure. */
kolo_status kolo_all_have(kolo_comm *ranks, uint64_t mine, bool *same);

/* All ranks that train together call it before the first step of a training: they overlap only if all have the same
 * buckets. On the host's stream, ranks with replicas that each keep their own weights have none. */
kolo_status kolo_overlap_agree(kolo_trainer *trainer);

/* The number of buckets; 0 without overlap. */
int kolo_overlap_buckets(const kolo_trainer *trainer);

/* Begins a step: decides whether it overlaps, which a batch does that ends a group of .accumulate_steps. */
void kolo_overlap_begin(kolo_trainer *trainer);
/* Whether the current step overlaps. Then each replica that would sum its gradient over the group calls the second
 * instead, after kolo_replica_compute(): arrays.gradient becomes the sum. Of replicas that share their weights, it is
 * replica 0, after all of them have computed. */
bool kolo_overlap_is_on(const kolo_trainer *trainer);
kolo_status kolo_overlap_finish(kolo_replica *replica);
/* Ends a step that has failed: nothing uses the replica's arrays any more. */
void kolo_overlap_abandon(kolo_trainer *trainer);
/* Adds the times of sums that have not been read to the timings. It waits for them. */
void kolo_overlap_read_times(kolo_trainer *trainer);

#endif
