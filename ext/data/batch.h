/* A step's batch. */
#ifndef KOLO_DATA_BATCH_H
#define KOLO_DATA_BATCH_H

#include <kolo.h>

/* One step's global batch: its samples, in order, and who reads which. */
typedef struct kolo_batch {
    const int32_t *order; /* [samples] numbers in the data set, padded by nothing; NULL: first, first+1, … */
    int64_t first;        /* of the data set's samples, when order is NULL */
    int64_t samples;      /* over all replicas and ranks */
    int microbatch;             /* samples a microbatch; microbatch l is samples l·microbatch … of the batch */
    uint64_t step;        /* 0, 1, 2, … since kolo_compile */
    uint64_t seed;        /* of what is left to chance in its samples, for a feed */
    int number;           /* 0, 1, 2, … of the epoch: see data/feed.h */
} kolo_batch;

#endif
