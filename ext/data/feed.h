/* A feed gathers the samples of the next batches ahead of the step.
 *
 * Without a feed, each microbatch gathers its samples from the data set. A feed has staging buffers for a few
 * batches, or for its part of each. Its threads fill them while other threads compute from the ones that are ready; a
 * feed without threads fills a buffer when it is taken. The samples do not depend on the number of threads. */
#ifndef KOLO_DATA_FEED_H
#define KOLO_DATA_FEED_H

#include "data/data.h"

typedef struct kolo_batch kolo_batch;

/* A staging buffer: the samples first … first+samples-1 of a batch, gathered one after the other. */
typedef struct kolo_staged {
    int64_t first, samples;
    kolo_gathered arrays; /* NULL: not wanted */
} kolo_staged;

/* Copies the samples `at` … at+count-1 of the batch into `to`. */
void kolo_staged_copy(const kolo_staged *staged, const kolo_data *data, int64_t at, int count, const kolo_gathered *to);

/* The batches of an epoch. */
typedef struct kolo_epoch_plan {
    const int32_t *order;   /* [samples], numbers in the data set; NULL: 0, 1, … */
    int64_t samples, batch; /* of the epoch; of a batch, over all ranks */
    int microbatch, steps;  /* samples per microbatch; steps of the epoch */
    uint64_t first_step;    /* kolo_batch.step of batch 0 */
    uint64_t seed;          /* kolo_batch.seed */
} kolo_epoch_plan;

/* Batch `number` of the epoch, from 0. */
kolo_batch kolo_epoch_batch(const kolo_epoch_plan *plan, int number);

#define KOLO_FEED_THREADS_MAX 256

typedef struct kolo_feed kolo_feed;

typedef struct kolo_feed_args {
    const kolo_data *data;
    int64_t room;  /* most samples of a batch in a staging buffer */
    int capacity;  /* number of staging buffers */
    int threads;   /* 0: a buffer is filled when it is taken */
    int takers;    /* callers that take and release each batch */
    bool stoppable; /* a requested stop ends gathering and waiting */
    bool labels, targets, weights; /* which arrays are wanted beside the features */
    int64_t outputs;               /* numbers in one sample's targets */
    /* Sets part->first and part->samples to the feed's part of a batch. whose: the member below. */
    void (*part)(const void *whose, const kolo_batch *batch, kolo_staged *part);
    const void *whose;
} kolo_feed_args;

kolo_status kolo_feed_open(const kolo_feed_args *args, kolo_feed **feed);
void kolo_feed_close(kolo_feed **feed); /* calls kolo_feed_end() first; takes a NULL feed */

/* Starts the threads with batch `number` of the plan, which must stay until kolo_feed_end(). Without threads it only
 * forgets earlier batches. */
kolo_status kolo_feed_begin(kolo_feed *feed, const kolo_epoch_plan *plan, int number);
/* Stops the threads and waits for them. Takes NULL. */
void kolo_feed_end(kolo_feed *feed);

/* Waits for the feed's part of that batch; *staged stays valid until kolo_feed_release(). Each taker takes every
 * batch, in order. A feed without threads copies the samples from `source`, or gathers them if that is NULL. Fails
 * with the failure of the gathering, or with KOLO_INTERRUPTED. */
kolo_status kolo_feed_take(kolo_feed *feed, const kolo_batch *batch, const kolo_staged *source,
                           const kolo_staged **staged);
void kolo_feed_release(kolo_feed *feed, const kolo_staged *staged);

/* Bytes gathered since the feed was opened. */
int64_t kolo_feed_bytes(kolo_feed *feed);
/* Bytes of one sample in the arrays of `wanted` that are not NULL. */
size_t kolo_gathered_bytes(const kolo_data *data, const kolo_gathered *wanted);

#endif
