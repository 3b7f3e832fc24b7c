/* The batch of a step. */
#ifndef KOLO_DATA_BATCH_H
#define KOLO_DATA_BATCH_H

#include <kolo.h>

/* The global batch of one step: its samples in order, divided into microbatches. */
typedef struct kolo_batch {
    const int32_t *order; /* [samples] numbers of the samples in the data set; NULL: first, first+1, … */
    int64_t first;        /* number of the first sample in the data set, if order is NULL */
    int64_t samples;      /* over all replicas and ranks */
    int microbatch;       /* samples per microbatch; microbatch l begins with sample l·microbatch of the batch */
    uint64_t step;        /* 0, 1, 2, … since kolo_compile */
    uint64_t seed;        /* of random numbers in its samples (augmentation, kolo_map), for a feed */
    int number;           /* of the batch in its epoch, from 0: see data/feed.h */
} kolo_batch;

#endif
