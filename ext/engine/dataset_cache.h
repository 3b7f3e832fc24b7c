/* The device dataset cache: keeps samples in the stream's memory. Either the whole data set is resident, or it is
 * staged shard by shard: the host gathers the samples of a shard into a staging buffer, and a second stream copies them
 * to the device while the previous shard is computed. The cache fills in a kolo_sources. For a stream without gather()
 * it does nothing, and the engine gathers from the data set.
 *
 * Read backend/stream.h first. */
#ifndef KOLO_ENGINE_DATASET_CACHE_H
#define KOLO_ENGINE_DATASET_CACHE_H

#include "data/feed.h"
#include "engine/program.h"

typedef struct kolo_shard kolo_shard;

#define KOLO_STAGING_BUFFERS 2 /* one is read while the other is filled */

/* Memory for the samples of one shard, on the host and on the device. */
typedef struct kolo_staging_buffer {
    char *host, *block; /* on the host; on the device */
    kolo_event *copied, *computed; /* recorded when `host` can be filled again; when `block` can */
} kolo_staging_buffer;

typedef struct kolo_dataset_cache {
    const kolo_program *program; /* NULL: no data set was attached, or the stream has no gather() */
    const kolo_data *data; /* the attached data set; NULL: none yet */
    bool staged; /* the data set is staged shard by shard; else it is resident */
    bool ordered; /* the current batch uses sources.order */
    kolo_sources sources; /* the arrays on the device */
    int64_t room; /* the capacity of a staging buffer, in samples */
    int32_t *order; /* [order_room] on the device, for sources.order */
    int64_t order_room;
    const int32_t *host_order; /* the epoch's order, which was copied to `order`; NULL: `order` is of one batch */
    int64_t order_count; /* the number of elements in host_order */
    char *block; /* the resident data set on the device */
    kolo_staging_buffer staging_buffers[KOLO_STAGING_BUFFERS];
    int staging_buffer; /* the number of the current shard's staging buffer; 0 if the data set is resident */
    int64_t shards; /* the number of shards that were staged so far */
    kolo_stream *copier; /* the stream that copies staging buffers; NULL: not open yet */
    int64_t address_version; /* changes whenever the addresses of arrays change, which captured graphs contain */
} kolo_dataset_cache;

void kolo_dataset_cache_close(kolo_dataset_cache *cache); /* takes a cache of all zeros */

/* From now on samples are those of `data`. The caller calls it before the first shard, and whenever the data may have
 * changed. wanted: the number of samples that will be used until the next call. For a few samples the data set does not
 * become resident. */
kolo_status kolo_dataset_cache_attach(kolo_dataset_cache *cache, const kolo_program *program, const kolo_data *data,
                                      int64_t wanted);
/* Copies an epoch's order to the device, so that batches need not copy their parts. NULL: the order of the data set. */
kolo_status kolo_dataset_cache_order(kolo_dataset_cache *cache, const int32_t *order, int64_t count);
/* Allocates memory for shards and batches of so many samples. */
kolo_status kolo_dataset_cache_expect(kolo_dataset_cache *cache, int64_t shard, int64_t batch);
/* Frees a resident data set; samples are staged from then on. Returns false if none was resident. */
bool kolo_dataset_cache_yield(kolo_dataset_cache *cache);
/* Stages the samples of a shard before it is enqueued. Sets step_parameters->first (backend/step_parameters.h). */
kolo_status kolo_dataset_cache_stage(kolo_dataset_cache *cache, const kolo_shard *shard,
                                     kolo_step_parameters *step_parameters);
/* Called after the shard was enqueued. Its staging buffer is free when the stream has computed the shard. */
kolo_status kolo_dataset_cache_done(kolo_dataset_cache *cache);
#endif
