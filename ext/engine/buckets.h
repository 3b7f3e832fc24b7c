/* Buckets: parts of the gradient that are summed, and sent to other members, while the backward pass still runs.
 *
 * A bucket is a run of parameters, from the last layer to the first, of about the wanted size. The backward pass
 * completes the buckets in the order of their numbers. Where a program has several segments, or writes gradients in
 * another order than that of the parameters, a bucket has several parts: a part is one block of memory in one segment.
 *
 * Each part has its own reduction tree. A microbatch's block is inserted as soon as the last operation that writes it
 * has run. When the blocks of all microbatches are in, the sum is complete, long before the last microbatch ends. It
 * has the same bits as the sum over whole gradients, because the tree is the same.
 */
#ifndef KOLO_ENGINE_BUCKETS_H
#define KOLO_ENGINE_BUCKETS_H

#include <stdatomic.h>

#include "engine/program.h"

typedef struct kolo_bucket_part {
    kolo_gradients gradients;
    int bucket, segment;
    int ready; /* the operation after which a microbatch's block is complete */
    kolo_reduction *tree;
    atomic_llong inserted; /* microbatches */
    float *sum; /* when all are inserted; NULL: there were none */
} kolo_bucket_part;

typedef struct kolo_bucket {
    int64_t first, count; /* the weights first … first+count-1 */
    int parts;
    atomic_int complete; /* parts whose sum is complete */
} kolo_bucket;

typedef struct kolo_buckets {
    const kolo_program *program;
    kolo_bucket *buckets; /* [count] */
    int count;
    kolo_bucket_part *parts; /* [part_count], in the order of their addresses */
    int part_count;
    int *part_of; /* [plan.value_count], of GRADIENT values */
    int64_t expected; /* microbatches of the step, of all engines that use these buckets */
    /* Called when the sum of a bucket is complete, in the thread that has completed it, in the order of the buckets;
     * but those that one operation completes come in any order, the same in each step. */
    kolo_status (*ready)(void *owner, int bucket);
    void *owner;
} kolo_buckets;

/* Cuts the program's gradients into buckets of at least `bytes` bytes each, but for the last. *buckets becomes NULL if
 * there would be only one: then nothing is gained. */
kolo_status kolo_buckets_open(const kolo_program *program, int64_t bytes, kolo_buckets **buckets);
void kolo_buckets_close(kolo_buckets **buckets); /* takes NULL */

/* Allocates the blocks of two microbatches, so that a step need not. */
kolo_status kolo_buckets_reserve(kolo_buckets *buckets);
/* Begins a step: a batch of so many microbatches, of which `expected` will be inserted here. */
void kolo_buckets_begin(kolo_buckets *buckets, int64_t microbatches, int64_t expected);
/* For a segment of one microbatch, in any thread. The first lends the memory of its parts: blocks[part_count]. The
 * second is called after each operation: it takes over the blocks that are complete, and sets them to NULL. The third
 * gives back the remaining blocks after a failure. */
kolo_status kolo_buckets_borrow(kolo_buckets *buckets, int segment, float **blocks);
kolo_status kolo_buckets_insert(kolo_buckets *buckets, int segment, int op, int64_t microbatch, float **blocks);
void kolo_buckets_return(kolo_buckets *buckets, int segment, float **blocks);
/* Where no microbatches are expected: completes the parts of a segment, without sums. */
kolo_status kolo_buckets_pass(kolo_buckets *buckets, int segment);

/* For ready(): unpacks the sum of a bucket into gradient[weights], or clears its part of it if there is no sum. */
kolo_status kolo_buckets_unpack(kolo_buckets *buckets, int bucket, float *gradient);

#endif
