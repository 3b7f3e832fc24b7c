/* Samples on a device: see residence.h. */
#include "engine/residence.h"

#include <string.h>

#include "core/tokens.h"
#include "engine/engine.h"

#define RESIDENT_PART 2 /* a data set stays on the device if it takes at most 1 / this of its free memory */

static const kolo_accelerator *accelerator_of(const kolo_residence *residence)
{
    return residence->program->backend->accelerator;
}
static kolo_queue *queue_of(const kolo_residence *residence)
{
    return residence->program->plan.queue;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* ---------------------------------------------------------------- memory */

static void release(kolo_residence *residence)
{
    const kolo_accelerator *accelerator = accelerator_of(residence);
    accelerator->release(queue_of(residence), residence->block);
    accelerator->release_host(queue_of(residence), residence->host);
    residence->block = residence->host = NULL;
    residence->data = NULL;
    residence->room = 0;
    residence->sources = (kolo_sources){0};
    residence->version++;
}

void kolo_residence_close(kolo_residence *residence)
{
    if (!residence->program) return;
    release(residence);
    accelerator_of(residence)->release(queue_of(residence), residence->order);
    accelerator_of(residence)->free_mark(queue_of(residence), residence->copied);
    *residence = (kolo_residence){0};
}

/* Bytes of the arrays of so many samples, one behind the other, each aligned. */
typedef struct extent {
    size_t features, labels, targets, weights, all;
} extent;

static extent resident_extent(const kolo_data *data, const kolo_plan *plan)
{
    size_t count = (size_t)data->samples, elements = (size_t)kolo_shape_count(data->shape);
    extent e = {.features = aligned(count * elements * (data->bytes ? 1 : sizeof(float)))};
    bool labels = plan->labels || (plan->targets && !data->targets && !data->autoencoder);
    if (labels && data->labels) e.labels = aligned(count * (size_t)data->label_count * sizeof(int32_t));
    if (plan->targets && data->targets)
        e.targets = aligned(count * (size_t)kolo_shape_count(data->target_shape) * sizeof(float));
    if (plan->weights && data->weights) e.weights = aligned(count * sizeof(float));
    e.all = e.features + e.labels + e.targets + e.weights;
    return e;
}

static bool fits(const kolo_residence *residence, const kolo_data *data)
{
    char name[96];
    int64_t memory, left;
    int device = residence->program->plan.device_number;
    if (data->view || accelerator_of(residence)->describe(device, name, &memory, &left) != KOLO_OK) return false;
    return (int64_t)resident_extent(data, &residence->program->plan).all <= left / RESIDENT_PART;
}

/* ---------------------------------------------------------------- resident */

/* Tokens are looked at once, since the device does not. */
static kolo_status check_tokens(const kolo_residence *residence, const kolo_data *data)
{
    const kolo_plan *plan = &residence->program->plan;
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

static kolo_status upload(kolo_residence *residence, size_t at, const void *from, size_t bytes)
{
    if (bytes == 0) return KOLO_OK;
    return accelerator_of(residence)->copy(queue_of(residence), residence->block + at, from, bytes);
}

static kolo_status make_resident(kolo_residence *residence, const kolo_data *data)
{
    const kolo_plan *plan = &residence->program->plan;
    const kolo_accelerator *accelerator = accelerator_of(residence);
    extent e = resident_extent(data, plan);
    size_t count = (size_t)data->samples, elements = (size_t)kolo_shape_count(data->shape);
    size_t labels = e.features, targets = labels + e.labels, weights = targets + e.targets;
    const void *features = data->bytes    ? (const void *)data->bytes
                           : data->floats ? (const void *)data->floats
                                          : data->tokens;
    KOLO_TRY(check_tokens(residence, data));
    KOLO_TRY(accelerator->allocate(queue_of(residence), e.all, "the data set", (void **)&residence->block));
    KOLO_TRY(upload(residence, 0, features, count * elements * (data->bytes ? 1 : sizeof(float))));
    if (e.labels)
        KOLO_TRY(upload(residence, labels, data->labels, count * (size_t)data->label_count * sizeof(int32_t)));
    if (e.targets)
        KOLO_TRY(upload(residence, targets, data->targets,
                        count * (size_t)kolo_shape_count(data->target_shape) * sizeof(float)));
    if (e.weights) KOLO_TRY(upload(residence, weights, data->weights, count * sizeof(float)));
    char *block = residence->block;
    residence->sources = (kolo_sources){.bytes = data->bytes ? (const uint8_t *)block : NULL,
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

/* ---------------------------------------------------------------- share by share */

/* The arrays that the plan wants, of `room` samples, in a block; *bytes: of all. */
static kolo_gathered arrays_in(const kolo_plan *plan, const kolo_data *data, char *block, int64_t room, size_t *bytes)
{
    kolo_shape outputs = plan->values[plan->output].shape;
    int64_t numbers = kolo_shape_count(outputs), rows = numbers / outputs.dim[outputs.rank - 1];
    size_t at = aligned((size_t)(room * kolo_shape_count(data->shape)) * sizeof(float));
    kolo_gathered to = {.features = (float *)block, .outputs = numbers};
    if (plan->labels) {
        to.labels = (int32_t *)(block + at);
        at += aligned((size_t)(room * rows) * sizeof(int32_t));
    }
    if (plan->targets) {
        to.targets = (float *)(block + at);
        at += aligned((size_t)(room * numbers) * sizeof(float));
    }
    if (plan->weights) {
        to.weights = (float *)(block + at);
        at += aligned((size_t)room * sizeof(float));
    }
    *bytes = at;
    return to;
}

/* Memory for a share of so many samples, on both sides. */
static kolo_status make_room(kolo_residence *residence, const kolo_data *data, int64_t samples)
{
    const kolo_plan *plan = &residence->program->plan;
    const kolo_accelerator *accelerator = accelerator_of(residence);
    size_t bytes;
    if (samples <= residence->room) return KOLO_OK;
    release(residence);
    arrays_in(plan, data, NULL, samples, &bytes);
    KOLO_TRY(accelerator->allocate(queue_of(residence), bytes, "the samples of a batch", (void **)&residence->block));
    KOLO_TRY(accelerator->allocate_host(queue_of(residence), bytes, (void **)&residence->host));
    residence->room = samples;
    kolo_gathered on_device = arrays_in(plan, data, residence->block, samples, &bytes);
    kolo_shape outputs = plan->values[plan->output].shape;
    residence->sources = (kolo_sources){.floats = on_device.features,
                                        .scale = 1,
                                        .labels = on_device.labels,
                                        .label_count = (int)(on_device.outputs / outputs.dim[outputs.rank - 1]),
                                        .targets = on_device.targets,
                                        .weights = on_device.weights,
                                        .elements = kolo_shape_count(data->shape)};
    residence->data = data;
    return KOLO_OK;
}

static kolo_status gather_share(kolo_residence *residence, const kolo_share *share, int64_t first, int count)
{
    const kolo_plan *plan = &residence->program->plan;
    const kolo_batch *batch = share->batch;
    size_t bytes;
    kolo_gathered to = arrays_in(plan, share->data, residence->host, residence->room, &bytes);
    kolo_gather_call call = {.training = plan->dropout,
                             .seed = share->seed,
                             .step = batch->step,
                             .first_sample = first,
                             .stoppable = share->stoppable};
    if (share->staged) kolo_staged_copy(share->staged, share->data, first, count, &to);
    else
        KOLO_TRY(kolo_data_gather(share->data, &call, batch->order ? batch->order + first : NULL, batch->first + first,
                                  count, &to));
    KOLO_TRY(kolo_tokens_check(plan, batch, first, count, to.features));
    const kolo_accelerator *accelerator = accelerator_of(residence);
    KOLO_TRY(accelerator->copy(queue_of(residence), residence->block, residence->host, bytes));
    return accelerator->set_mark(queue_of(residence), &residence->copied);
}

static kolo_status bring_staged(kolo_residence *residence, const kolo_share *share, kolo_moment *moment)
{
    const kolo_batch *batch = share->batch;
    int64_t first = share->first_leaf * batch->leaf, end = share->end_leaf * batch->leaf;
    if (end > batch->samples) end = batch->samples;
    moment->first = -first;
    if (first >= end) return KOLO_OK;
    if (residence->copied) KOLO_TRY(accelerator_of(residence)->wait_mark(queue_of(residence), residence->copied));
    return gather_share(residence, share, first, (int)(end - first));
}

/* ---------------------------------------------------------------- the calls */

kolo_status kolo_residence_attach(kolo_residence *residence, const kolo_program *program, const kolo_data *data)
{
    residence->program = program;
    release(residence);
    residence->host_order = NULL;
    residence->staged = !fits(residence, data);
    if (!residence->staged) KOLO_TRY(make_resident(residence, data));
    residence->data = data;
    return KOLO_OK;
}

kolo_status kolo_residence_order(kolo_residence *residence, const int32_t *order, int64_t count)
{
    const kolo_accelerator *accelerator = accelerator_of(residence);
    residence->host_order = order;
    residence->order_count = count;
    if (!order || residence->staged) return KOLO_OK;
    if (count > residence->order_room) {
        accelerator->release(queue_of(residence), residence->order);
        residence->order = NULL;
        residence->version++;
        residence->order_room = 0;
        size_t bytes = (size_t)count * sizeof *order;
        KOLO_TRY(accelerator->allocate(queue_of(residence), bytes, "the order of the samples",
                                       (void **)&residence->order));
        residence->order_room = count;
    }
    return accelerator->copy(queue_of(residence), residence->order, order, (size_t)count * sizeof *order);
}

static bool is_of_the_epoch(const kolo_residence *residence, const kolo_batch *batch)
{
    const int32_t *order = residence->host_order;
    return order && batch->order >= order && batch->order + batch->samples <= order + residence->order_count;
}

kolo_status kolo_residence_bring(kolo_residence *residence, const kolo_share *share, kolo_moment *moment)
{
    const kolo_batch *batch = share->batch;
    if (residence->staged) {
        residence->ordered = false;
        int64_t leaves = share->end_leaf - share->first_leaf;
        KOLO_TRY(make_room(residence, share->data, (leaves > 0 ? leaves : 1) * batch->leaf));
        return bring_staged(residence, share, moment);
    }
    residence->ordered = batch->order != NULL;
    moment->first = batch->first;
    if (is_of_the_epoch(residence, batch)) {
        moment->first = batch->order - residence->host_order;
    } else if (batch->order) {
        KOLO_TRY(kolo_residence_order(residence, batch->order, batch->samples));
        residence->host_order = NULL; /* who made it may write others there */
        moment->first = 0;
    }
    residence->sources.order = batch->order ? residence->order : NULL;
    return KOLO_OK;
}
