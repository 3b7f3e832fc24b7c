/* A feed: the samples of batches to come, gathered before they are asked for.
 *
 * Without one, each microbatch takes its samples from the data set itself. A feed has memory for a few batches, or for
 * its part of each, which its threads fill in turn while others compute from what is there; without threads it is
 * filled by whoever asks. Whatever the threads, the numbers are the same. */
#ifndef KOLO_DATA_FEED_H
#define KOLO_DATA_FEED_H

#include "data/data.h"

typedef struct kolo_batch kolo_batch;

/* Samples first … first+samples-1 of a batch, gathered one behind the other. */
typedef struct kolo_staged {
    int64_t first, samples;
    kolo_gathered arrays; /* those that are wanted */
} kolo_staged;

/* Rows `at` … at+count-1 of what was gathered, by their numbers in the batch, into `to`. */
void kolo_staged_copy(const kolo_staged *staged, const kolo_data *data, int64_t at, int count, const kolo_gathered *to);

/* The batches of an epoch. */
typedef struct kolo_epoch_plan {
    const int32_t *order; /* [samples], or NULL: as they stand */
    int64_t samples, batch;
    int microbatch, steps;
    uint64_t first_step; /* kolo_batch.step of batch 0 */
    uint64_t seed;       /* of what is left to chance */
} kolo_epoch_plan;

kolo_batch kolo_epoch_batch(const kolo_epoch_plan *plan, int number);

#define KOLO_FEED_THREADS_MAX 256

typedef struct kolo_feed kolo_feed;

typedef struct kolo_feed_args {
    const kolo_data *data;
    int64_t room;  /* samples of a batch that it holds at most */
    int capacity;  /* batches */
    int threads;   /* 0: filled by who asks */
    int takers;    /* of each batch */
    bool stoppable; /* a requested stop ends the waiting */
    bool labels, targets, weights; /* wanted beside the features */
    int64_t outputs;               /* numbers of one sample's targets */
    /* Its part of a batch: sets first and samples. */
    void (*part)(const void *whose, const kolo_batch *batch, kolo_staged *part);
    const void *whose;
} kolo_feed_args;

kolo_status kolo_feed_open(const kolo_feed_args *args, kolo_feed **feed);
void kolo_feed_close(kolo_feed **feed); /* takes NULL; ends it first */

/* Its threads begin with batch `number` of the plan, which stays until the end; no threads: does nothing. */
kolo_status kolo_feed_begin(kolo_feed *feed, const kolo_epoch_plan *plan, int number);
/* Waits for its threads, which leave off. Takes NULL. */
void kolo_feed_end(kolo_feed *feed);

/* The feed's part of that batch, when it is there; *staged stays until kolo_feed_release(). Batches are taken in their
 * order, each by every taker. `source`: where else than from the data set it is copied, when it is filled now. Fails as
 * the gathering did, or with KOLO_INTERRUPTED. */
kolo_status kolo_feed_take(kolo_feed *feed, const kolo_batch *batch, const kolo_staged *source,
                           const kolo_staged **staged);
void kolo_feed_release(kolo_feed *feed, const kolo_staged *staged);

/* Bytes gathered since it was opened. */
int64_t kolo_feed_bytes(kolo_feed *feed);
/* Of one sample, in the arrays that are wanted. */
size_t kolo_gathered_bytes(const kolo_data *data, const kolo_gathered *wanted);

#endif
