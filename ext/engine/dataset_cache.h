/* Samples where a stream's kernels reach them: a data set that lies on the device for as long as it is trained with, or
 * the samples of one shard at a time, which are gathered on the host and copied by a stream of their own while the
 * shard before is computed. For a stream without a gather() of its own it does nothing: the engine then gathers
 * straight from the data set.
 *
 * Read backend/stream.h first: kolo_sources is what this fills in. */
#ifndef KOLO_ENGINE_DATASET_CACHE_H
#define KOLO_ENGINE_DATASET_CACHE_H

#include "data/feed.h"
#include "engine/program.h"

typedef struct kolo_shard kolo_shard;

#define KOLO_STAGING_BUFFERS 2 /* one that is computed from, one that is filled */

/* Memory for one shard, on both sides. */
/* A staging buffer. */
typedef struct kolo_staging_buffer {
    char *host, *block;
    kolo_event *copied, *computed; /* when the host's is free again; when the device's is */
} kolo_staging_buffer;

typedef struct kolo_dataset_cache {
    const kolo_program *program; /* NULL: nothing is attached, or nothing needs to be */
    const kolo_data *data; /* whose samples they are; NULL: nobody's yet */
    bool staged; /* they come shard by shard */
    bool ordered; /* and go by sources.order */
    kolo_sources sources; /* the device's arrays */
    int64_t room; /* samples that there is memory for, staged */
    int32_t *order; /* the device's [order_room]: what sources.order is, when there is one */
    int64_t order_room;
    const int32_t *host_order; /* of an epoch, whose copy that is; NULL: of one shard */
    int64_t order_count;
    char *block; /* resident: the device's memory */
    kolo_staging_buffer staging_buffers[KOLO_STAGING_BUFFERS];
    int staging_buffer; /* that the shard at hand is in; resident: 0 */
    int64_t shards; /* that were staged */
    kolo_stream *copier; /* which brings them; NULL: nothing was staged yet */
    int64_t version; /* another whenever the device's arrays are others: captured graphs have them built in */
} kolo_dataset_cache;

void kolo_dataset_cache_close(kolo_dataset_cache *cache); /* takes one of all zeros */

/* From now on the samples are those of `data`. Before the first shard, and whenever the data may be others. wanted: so
 * many samples are taken until then; a few do not bring all of them to the device. */
kolo_status kolo_dataset_cache_attach(kolo_dataset_cache *cache, const kolo_program *program, const kolo_data *data,
                                      int64_t wanted);
/* An epoch's order: batches whose order is a part of it need no copy of their own. order NULL: as they stand. */
kolo_status kolo_dataset_cache_order(kolo_dataset_cache *cache, const int32_t *order, int64_t count);
/* Memory for shards and batches of so many samples. */
kolo_status kolo_dataset_cache_expect(kolo_dataset_cache *cache, int64_t shard, int64_t batch);
/* Gives a data set's memory on the device back, if it lies there; false: it does not. */
bool kolo_dataset_cache_yield(kolo_dataset_cache *cache);
/* Before the shard is computed: its samples are there. step parameters->first is set so that sample b of the batch is
 * number step parameters->first + b. */
kolo_status kolo_dataset_cache_bring(kolo_dataset_cache *cache, const kolo_shard *shard,
                                     kolo_step_parameters *step_parameters);
/* After the shard was given to the stream: when that has come so far, its samples may make way. */
kolo_status kolo_dataset_cache_done(kolo_dataset_cache *cache);
#endif
