/* The device dataset cache: keeps samples in the stream's memory. Either the whole data set is resident, or the samples
 * of one shard at a time are gathered on the host into a staging buffer, and copied by a second stream while the shard
 * before is computed. For a stream without gather() the cache does nothing, and the engine gathers from the data set.
 *
 * Read backend/stream.h first. The cache fills in a kolo_sources. */
#ifndef KOLO_ENGINE_DATASET_CACHE_H
#define KOLO_ENGINE_DATASET_CACHE_H

#include "data/feed.h"
#include "engine/program.h"

typedef struct kolo_shard kolo_shard;

#define KOLO_STAGING_BUFFERS 2 /* one is read while the other is filled */

/* Memory for the samples of one shard, on the host and on the device. */
typedef struct kolo_staging_buffer {
    char *host, *block;
    kolo_event *copied, *computed; /* recorded when `host` is free again, and when `block` is */
} kolo_staging_buffer;

typedef struct kolo_dataset_cache {
    const kolo_program *program; /* NULL: no data is attached, or the stream has no gather() */
    const kolo_data *data; /* NULL: none yet */
    bool staged; /* shard by shard; else resident */
    bool ordered; /* the batch uses sources.order */
    kolo_sources sources; /* the device's arrays */
    int64_t room; /* the capacity of a staging buffer, in samples */
    int32_t *order; /* [order_room] on the device, for sources.order */
    int64_t order_room;
    const int32_t *host_order; /* the epoch's order that `order` is a copy of; NULL: `order` is of one batch */
    int64_t order_count;
    char *block; /* the resident data set on the device */
    kolo_staging_buffer staging_buffers[KOLO_STAGING_BUFFERS];
    int staging_buffer; /* the number of the current shard's buffer; 0 if resident */
    int64_t shards; /* the number of staged shards */
    kolo_stream *copier; /* the stream that copies staging buffers; NULL: not open yet */
    int64_t version; /* changes whenever arrays move to other addresses, which captured graphs hold */
} kolo_dataset_cache;

void kolo_dataset_cache_close(kolo_dataset_cache *cache); /* takes a cache of all zeros */

/* From now on samples come from `data`. Called before the first shard, and whenever the data may have changed. wanted:
 * the number of samples that will be used until the next call; few samples do not make the data set resident. */
kolo_status kolo_dataset_cache_attach(kolo_dataset_cache *cache, const kolo_program *program, const kolo_data *data,
                                      int64_t wanted);
/* Copies an epoch's order, so that batches need not copy their part of it. NULL: the order of the data set. */
kolo_status kolo_dataset_cache_order(kolo_dataset_cache *cache, const int32_t *order, int64_t count);
/* Allocates memory for shards and batches of so many samples. */
kolo_status kolo_dataset_cache_expect(kolo_dataset_cache *cache, int64_t shard, int64_t batch);
/* Frees a resident data set; samples are staged from then on. false: it was not resident. */
bool kolo_dataset_cache_yield(kolo_dataset_cache *cache);
/* Stages the samples of a shard before it is enqueued. Sets step_parameters->first so that sample b of the batch is
 * number step_parameters->first + b. */
kolo_status kolo_dataset_cache_stage(kolo_dataset_cache *cache, const kolo_shard *shard,
                                     kolo_step_parameters *step_parameters);
/* Called after the shard was enqueued: its staging buffer becomes free when the stream has computed it. */
kolo_status kolo_dataset_cache_done(kolo_dataset_cache *cache);
#endif
