/* Keeps samples in the stream's memory: see dataset_cache.h. */
#include "engine/dataset_cache.h"

#include <string.h>

#include "data/tokens.h"
#include "engine/engine.h"

#define RESIDENT_PART 2 /* a data set becomes resident if it takes at most 1 / this of the free memory */
#define WANTED_PART   4 /* and if more than 1 / this of its samples are wanted, and it is not a view */

static const kolo_stream_kind *streams_of(const kolo_dataset_cache *cache)
{
    return cache->program->backend->streams;
}
static kolo_stream *stream_of(const kolo_dataset_cache *cache)
{
    return cache->program->plan.stream;
}

/* ---------------------------------------------------------------- memory */

static void release_buffer(kolo_dataset_cache *cache, kolo_staging_buffer *buffer)
{
    const kolo_stream_kind *streams = streams_of(cache);
    streams->release(stream_of(cache), buffer->block);
    streams->release_host(stream_of(cache), buffer->host);
    streams->free_event(stream_of(cache), buffer->copied);
    streams->free_event(stream_of(cache), buffer->computed);
    *buffer = (kolo_staging_buffer){0};
}

static void release(kolo_dataset_cache *cache)
{
    const kolo_stream_kind *streams = streams_of(cache);
    if (cache->copier) streams->synchronize(cache->copier);
    for (int i = 0; i < KOLO_STAGING_BUFFERS; i++) release_buffer(cache, &cache->staging_buffers[i]);
    streams->release(stream_of(cache), cache->block);
    cache->block = NULL;
    cache->data = NULL;
    cache->room = 0;
    cache->staging_buffer = 0;
    cache->sources = (kolo_sources){0};
    cache->address_version++;
}

void kolo_dataset_cache_close(kolo_dataset_cache *cache)
{
    if (!cache->program) return;
    release(cache);
    streams_of(cache)->release(stream_of(cache), cache->order);
    streams_of(cache)->close(&cache->copier);
    *cache = (kolo_dataset_cache){0};
}

/* Bytes of the arrays of a resident data set, which are stored one behind the other, each aligned. */
typedef struct extent {
    size_t features, labels, targets, weights, all;
} extent;

static extent resident_extent(const kolo_data *data, const kolo_plan *plan)
{
    size_t count = (size_t)data->samples, elements = (size_t)kolo_shape_count(data->shape);
    extent e = {.features = kolo_align(count * elements * (data->bytes ? 1 : sizeof(float)), KOLO_GPU_ALIGNMENT)};
    bool labels = plan->labels || (plan->targets && !data->targets && !data->autoencoder);
    if (labels && data->labels)
        e.labels = kolo_align(count * (size_t)data->label_count * sizeof(int32_t), KOLO_GPU_ALIGNMENT);
    if (plan->targets && data->targets)
        e.targets =
            kolo_align(count * (size_t)kolo_shape_count(data->target_shape) * sizeof(float), KOLO_GPU_ALIGNMENT);
    if (plan->weights && data->weights) e.weights = kolo_align(count * sizeof(float), KOLO_GPU_ALIGNMENT);
    e.all = e.features + e.labels + e.targets + e.weights;
    return e;
}

static bool fits(const kolo_dataset_cache *cache, const kolo_data *data)
{
    char name[96];
    int64_t memory, left;
    int device = cache->program->plan.device_number;
    const kolo_device_information *devices = cache->program->backend->devices;
    if (!devices) return true;
    if (devices->describe(device, name, &memory, &left) != KOLO_OK) {
        kolo_failure_take(); /* unknown memory: the data set is staged */
        return false;
    }
    return (int64_t)resident_extent(data, &cache->program->plan).all <= left / RESIDENT_PART;
}

/* ---------------------------------------------------------------- resident */

/* Checks all tokens once, because the device's gather does not. */
static kolo_status check_tokens(const kolo_dataset_cache *cache, const kolo_data *data)
{
    const kolo_plan *plan = &cache->program->plan;
    if (plan->tokens == 0) return KOLO_OK;
    float row[4096];
    int64_t length = kolo_shape_count(data->shape);
    kolo_batch batch = {.samples = data->samples};
    kolo_gathered to = {.features = row};
    if (length > 4096)
        return kolo_fail(KOLO_UNSUPPORTED, "wanted at most 4096 tokens a sample, got %lld", (long long)length);
    for (int64_t i = 0; i < data->samples; i++) {
        KOLO_TRY(kolo_data_gather(data, NULL, NULL, i, 1, &to));
        KOLO_TRY(kolo_tokens_check(plan, &batch, i, 1, row));
    }
    return KOLO_OK;
}

static kolo_status upload(kolo_dataset_cache *cache, size_t at, const void *from, size_t bytes)
{
    if (bytes == 0) return KOLO_OK;
    return streams_of(cache)->copy(stream_of(cache), cache->block + at, from, bytes);
}

static kolo_status make_resident(kolo_dataset_cache *cache, const kolo_data *data)
{
    const kolo_plan *plan = &cache->program->plan;
    const kolo_stream_kind *streams = streams_of(cache);
    extent e = resident_extent(data, plan);
    size_t count = (size_t)data->samples, elements = (size_t)kolo_shape_count(data->shape);
    size_t labels = e.features, targets = labels + e.labels, weights = targets + e.targets;
    const void *features = data->bytes    ? (const void *)data->bytes
                           : data->floats ? (const void *)data->floats
                                          : data->tokens;
    KOLO_TRY(check_tokens(cache, data));
    KOLO_TRY(streams->allocate(stream_of(cache), e.all, "the data set", (void **)&cache->block));
    KOLO_TRY(upload(cache, 0, features, count * elements * (data->bytes ? 1 : sizeof(float))));
    if (e.labels) KOLO_TRY(upload(cache, labels, data->labels, count * (size_t)data->label_count * sizeof(int32_t)));
    if (e.targets)
        KOLO_TRY(upload(cache, targets, data->targets,
                        count * (size_t)kolo_shape_count(data->target_shape) * sizeof(float)));
    if (e.weights) KOLO_TRY(upload(cache, weights, data->weights, count * sizeof(float)));
    char *block = cache->block;
    cache->sources = (kolo_sources){.bytes = data->bytes ? (const uint8_t *)block : NULL,
                                    .floats = data->floats ? (const float *)block : NULL,
                                    .tokens = data->tokens ? (const int32_t *)block : NULL,
                                    .scale = data->scale,
                                    .labels = e.labels ? (const int32_t *)(block + labels) : NULL,
                                    .label_count = data->label_count,
                                    .targets = e.targets ? (const float *)(block + targets) : NULL,
                                    .autoencoder = data->autoencoder,
                                    .weights = e.weights ? (const float *)(block + weights) : NULL,
                                    .elements = (int64_t)elements};
    return KOLO_OK;
}

/* ---------------------------------------------------------------- staged shard by shard */

/* The addresses in `block` of the arrays that the plan reads, for `room` samples. *bytes is set to their total size. */
static kolo_gathered arrays_in(const kolo_plan *plan, const kolo_data *data, char *block, int64_t room, size_t *bytes)
{
    int64_t numbers = kolo_plan_outputs(plan), rows = kolo_plan_rows(plan);
    size_t at = kolo_align((size_t)(room * kolo_shape_count(data->shape)) * sizeof(float), KOLO_GPU_ALIGNMENT);
    kolo_gathered to = {.features = (float *)block, .outputs = numbers};
    if (plan->labels) {
        to.labels = (int32_t *)(block + at);
        at += kolo_align((size_t)(room * rows) * sizeof(int32_t), KOLO_GPU_ALIGNMENT);
    }
    if (plan->targets) {
        to.targets = (float *)(block + at);
        at += kolo_align((size_t)(room * numbers) * sizeof(float), KOLO_GPU_ALIGNMENT);
    }
    if (plan->weights) {
        to.weights = (float *)(block + at);
        at += kolo_align((size_t)room * sizeof(float), KOLO_GPU_ALIGNMENT);
    }
    *bytes = at;
    return to;
}

static kolo_status open_buffer(kolo_dataset_cache *cache, kolo_staging_buffer *buffer, size_t bytes)
{
    const kolo_stream_kind *streams = streams_of(cache);
    KOLO_TRY(streams->allocate(stream_of(cache), bytes, "the samples of a batch", (void **)&buffer->block));
    return streams->allocate_host(stream_of(cache), bytes, (void **)&buffer->host);
}

/* Allocates staging buffers for shards of so many samples. */
static kolo_status make_room(kolo_dataset_cache *cache, const kolo_data *data, int64_t samples)
{
    size_t bytes;
    if (samples <= cache->room) return KOLO_OK;
    release(cache);
    arrays_in(&cache->program->plan, data, NULL, samples, &bytes);
    if (!cache->copier)
        KOLO_TRY(streams_of(cache)->open(&(kolo_stream_place){.backend = cache->program->backend,
                                                              .device = cache->program->plan.device_number,
                                                              .threads = 1},
                                         &cache->copier));
    for (int i = 0; i < KOLO_STAGING_BUFFERS; i++) KOLO_TRY(open_buffer(cache, &cache->staging_buffers[i], bytes));
    cache->room = samples;
    cache->data = data;
    return KOLO_OK;
}

/* The arrays of a staging buffer on the device. */
static kolo_sources sources_of(const kolo_dataset_cache *cache, const kolo_data *data,
                               const kolo_staging_buffer *buffer)
{
    size_t bytes;
    const kolo_plan *plan = &cache->program->plan;
    kolo_gathered arrays = arrays_in(plan, data, buffer->block, cache->room, &bytes);
    return (kolo_sources){.floats = arrays.features,
                          .scale = 1,
                          .labels = arrays.labels,
                          .label_count = (int)kolo_plan_rows(plan),
                          .targets = arrays.targets,
                          .weights = arrays.weights,
                          .elements = kolo_shape_count(data->shape)};
}

/* The copy waits until the shard that last used the buffer is computed, and the stream waits for the copy. */
static kolo_status copy_buffer(kolo_dataset_cache *cache, kolo_staging_buffer *buffer, size_t bytes)
{
    const kolo_stream_kind *streams = streams_of(cache);
    if (buffer->computed) KOLO_TRY(streams->wait_event(cache->copier, buffer->computed));
    KOLO_TRY(streams->copy(cache->copier, buffer->block, buffer->host, bytes));
    KOLO_TRY(streams->record_event(cache->copier, &buffer->copied));
    return streams->wait_event(stream_of(cache), buffer->copied);
}

static kolo_status stage_shard(kolo_dataset_cache *cache, const kolo_shard *shard,
                               kolo_step_parameters *step_parameters)
{
    const kolo_batch *batch = shard->batch;
    int64_t first = shard->first_microbatch * batch->microbatch, end = shard->end_microbatch * batch->microbatch;
    size_t bytes;
    if (end > batch->samples) end = batch->samples;
    cache->staging_buffer = (int)(cache->shards++ % KOLO_STAGING_BUFFERS);
    kolo_staging_buffer *buffer = &cache->staging_buffers[cache->staging_buffer];
    cache->sources = sources_of(cache, shard->data, buffer);
    step_parameters->first = -first;
    if (first >= end) return KOLO_OK;
    if (buffer->copied) KOLO_TRY(streams_of(cache)->synchronize_event(cache->copier, buffer->copied));
    kolo_gathered to = arrays_in(&cache->program->plan, shard->data, buffer->host, cache->room, &bytes);
    KOLO_TRY(kolo_shard_gather(shard, &cache->program->plan, first, (int)(end - first), &to));
    return copy_buffer(cache, buffer, bytes);
}

kolo_status kolo_dataset_cache_done(kolo_dataset_cache *cache)
{
    if (!cache->program || !cache->staged) return KOLO_OK;
    return streams_of(cache)->record_event(stream_of(cache), &cache->staging_buffers[cache->staging_buffer].computed);
}

/* ---------------------------------------------------------------- interface */

kolo_status kolo_dataset_cache_attach(kolo_dataset_cache *cache, const kolo_program *program, const kolo_data *data,
                                      int64_t wanted)
{
    bool stays = !data->view && wanted > data->samples / WANTED_PART;
    if (!program->backend->streams->gather) return KOLO_OK; /* the engine gathers from the data set */
    cache->program = program;
    if (stays || !cache->staged) release(cache); /* staging buffers serve any data set */
    cache->host_order = NULL;
    cache->data = data;
    cache->staged = !stays || !fits(cache, data);
    if (cache->staged) return KOLO_OK;
    kolo_status status = make_resident(cache, data);
    if (status != KOLO_MEMORY) return status;
    kolo_failure_take(); /* another process has allocated the memory meanwhile */
    kolo_dataset_cache_yield(cache);
    return KOLO_OK;
}

bool kolo_dataset_cache_yield(kolo_dataset_cache *cache)
{
    if (!cache->program || cache->staged) return false;
    const kolo_data *data = cache->data;
    release(cache);
    cache->data = data;
    return cache->staged = true;
}

static kolo_status open_order(kolo_dataset_cache *cache, int64_t count)
{
    const kolo_stream_kind *streams = streams_of(cache);
    if (count <= cache->order_room) return KOLO_OK;
    streams->release(stream_of(cache), cache->order);
    cache->order = NULL;
    cache->address_version++;
    cache->order_room = 0;
    size_t bytes = (size_t)count * sizeof *cache->order;
    KOLO_TRY(streams->allocate(stream_of(cache), bytes, "the order of the samples", (void **)&cache->order));
    cache->order_room = count;
    return KOLO_OK;
}

kolo_status kolo_dataset_cache_expect(kolo_dataset_cache *cache, int64_t shard, int64_t batch)
{
    if (!cache->program) return KOLO_OK;
    return cache->staged ? make_room(cache, cache->data, shard) : open_order(cache, batch);
}

kolo_status kolo_dataset_cache_order(kolo_dataset_cache *cache, const int32_t *order, int64_t count)
{
    if (!cache->program) return KOLO_OK;
    cache->host_order = order;
    cache->order_count = count;
    if (!order || cache->staged) return KOLO_OK;
    KOLO_TRY(open_order(cache, count));
    return streams_of(cache)->copy(stream_of(cache), cache->order, order, (size_t)count * sizeof *order);
}

static bool is_of_the_epoch(const kolo_dataset_cache *cache, const kolo_batch *batch)
{
    const int32_t *order = cache->host_order;
    return order && batch->order >= order && batch->order + batch->samples <= order + cache->order_count;
}

kolo_status kolo_dataset_cache_stage(kolo_dataset_cache *cache, const kolo_shard *shard,
                                     kolo_step_parameters *step_parameters)
{
    const kolo_batch *batch = shard->batch;
    if (!cache->program) return KOLO_OK;
    if (cache->staged) {
        cache->ordered = false;
        int64_t microbatches = shard->end_microbatch - shard->first_microbatch;
        KOLO_TRY(make_room(cache, shard->data, (microbatches > 0 ? microbatches : 1) * batch->microbatch));
        return stage_shard(cache, shard, step_parameters);
    }
    cache->ordered = batch->order != NULL;
    step_parameters->first = batch->first;
    if (is_of_the_epoch(cache, batch)) {
        step_parameters->first = batch->order - cache->host_order;
    } else if (batch->order) {
        KOLO_TRY(kolo_dataset_cache_order(cache, batch->order, batch->samples));
        cache->host_order = NULL; /* the caller may reuse its memory */
        step_parameters->first = 0;
    }
    cache->sources.order = batch->order ? cache->order : NULL;
    return KOLO_OK;
}
