/* The second stream of a replica: it sums the buckets of the gradient over the members of the group while the backward
 * pass still runs on the first stream. This is overlap (overlap.h) for streams whose work is enqueued, as a GPU's is.
 *
 * The host enqueues the whole backward pass. Behind the work that completes a bucket (engine/buckets.h) and unpacks it
 * into arrays.gradient, the first stream records an event; a captured step is cut into one graph for each bucket, so
 * that this is possible. Then the host enqueues the sums. On the second stream each sum waits for the event of its
 * bucket, and the first stream waits for the last sum before the update. So the device begins a sum as soon as its
 * bucket is complete, although the host has enqueued it behind the whole pass.
 *
 * Each replica has copies of the weights here, and therefore buckets and a second stream of its own, also where a
 * process has several devices. All of them sum over one group.
 *
 * The bits are those of one sum after the backward pass if the comm adds each element in the same order wherever it is.
 * A staged comm does. NCCL does for two members; for more its order may depend on the element's place in the call.
 *
 * Not done: programs with layers that sum over the group in the middle of the pass (batch norm with .synchronized)
 * have no second stream. These sums are enqueued before those of the buckets, and NCCL runs all of them in that order,
 * so nearly nothing would be hidden.
 */
#ifndef KOLO_REPLICA_SECOND_STREAM_H
#define KOLO_REPLICA_SECOND_STREAM_H

#include "replica/trainer.h"

/* Sets replica->second. It stays NULL where the gradient makes only one bucket of at least `bytes` bytes; 0: a quarter
 * of the gradient, and at least KOLO_BUCKET_BYTES. */
kolo_status kolo_second_stream_open(kolo_replica *replica, int64_t bytes);
void kolo_second_stream_close(kolo_replica *replica);
/* NULL without a second stream. */
const kolo_buckets *kolo_second_stream_buckets(const kolo_replica *replica);

/* Closes the stream's comm, which has to happen before replica->comm closes. The next sum opens it again. */
void kolo_second_stream_leave(kolo_replica *replica);

/* Begins a step. */
void kolo_second_stream_begin(kolo_replica *replica);
/* Enqueues the sums of all buckets, after kolo_replica_compute(). All members of the group call it. */
kolo_status kolo_second_stream_sum(kolo_replica *replica);

/* Waits for the sums of all steps whose times have not been read, and adds them to replica->timings. */
kolo_status kolo_second_stream_read_times(kolo_replica *replica);

#endif
