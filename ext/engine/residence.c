/* Samples on a device: see residence.h. */
#include "engine/residence.h"

#include <string.h>

#include "core/tokens.h"
#include "engine/engine.h"

#define RESIDENT_PART 2 /* a data set stays on the device if it takes at most 1 / this of its free memory */
#define WANTED_PART   4 /* and goes there if more than 1 / this of its samples are wanted */

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

static void release_stage(kolo_residence *residence, kolo_stage *stage)
{
    const kolo_accelerator *accelerator = accelerator_of(residence);
    accelerator->release(queue_of(residence), stage->block);
    accelerator->release_host(queue_of(residence), stage->host);
    accelerator->free_mark(queue_of(residence), stage->copied);
    accelerator->free_mark(queue_of(residence), stage->computed);
    *stage = (kolo_stage){0};
}

static void release(kolo_residence *residence)
{
    const kolo_accelerator *accelerator = accelerator_of(residence);
    if (residence->copier) accelerator->finish(residence->copier);
    for (int i = 0; i < KOLO_STAGES; i++) release_stage(residence, &residence->stages[i]);
    accelerator->release(queue_of(residence), residence->block);
    residence->block = NULL;
    residence->data = NULL;
    residence->room = 0;
    residence->stage = 0;
    residence->sources = (kolo_sources){0};
    residence->version++;
}

void kolo_residence_close(kolo_residence *residence)
{
    if (!residence->program) return;
    release(residence);
    accelerator_of(residence)->release(queue_of(residence), residence->order);
    accelerator_of(residence)->close(&residence->copier);
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
    if (accelerator_of(residence)->describe(device, name, &memory, &left) != KOLO_OK) {
        kolo_failure_take(); /* it does without */
        return false;
    }
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

static kolo_status open_stage(kolo_residence *residence, kolo_stage *stage, size_t bytes)
{
    const kolo_accelerator *accelerator = accelerator_of(residence);
    KOLO_TRY(accelerator->allocate(queue_of(residence), bytes, "the samples of a batch", (void **)&stage->block));
    return accelerator->allocate_host(queue_of(residence), bytes, (void **)&stage->host);
}

/* Memory for shares of so many samples. */
static kolo_status make_room(kolo_residence *residence, const kolo_data *data, int64_t samples)
{
    size_t bytes;
    if (samples <= residence->room) return KOLO_OK;
    release(residence);
    arrays_in(&residence->program->plan, data, NULL, samples, &bytes);
    if (!residence->copier)
        KOLO_TRY(accelerator_of(residence)->open(residence->program->plan.device_number, &residence->copier));
    for (int i = 0; i < KOLO_STAGES; i++) KOLO_TRY(open_stage(residence, &residence->stages[i], bytes));
    residence->room = samples;
    residence->data = data;
    return KOLO_OK;
}

/* What a stage's arrays are to the device. */
static kolo_sources sources_of(const kolo_residence *residence, const kolo_data *data, const kolo_stage *stage)
{
    size_t bytes;
    const kolo_plan *plan = &residence->program->plan;
    kolo_gathered there = arrays_in(plan, data, stage->block, residence->room, &bytes);
    kolo_shape outputs = plan->values[plan->output].shape;
    return (kolo_sources){.floats = there.features,
                          .scale = 1,
                          .labels = there.labels,
                          .label_count = (int)(there.outputs / outputs.dim[outputs.rank - 1]),
                          .targets = there.targets,
                          .weights = there.weights,
                          .elements = kolo_shape_count(data->shape)};
}

static kolo_status gather_share(kolo_residence *residence, const kolo_share *share, int64_t first, int count,
                                const kolo_gathered *to)
{
    const kolo_plan *plan = &residence->program->plan;
    const kolo_batch *batch = share->batch;
    kolo_gather_call call = {.training = plan->dropout,
                             .seed = share->seed,
                             .step = batch->step,
                             .first_sample = first,
                             .stoppable = share->stoppable};
    const int32_t *order = batch->order ? batch->order + first : NULL;
    if (share->staged) kolo_staged_copy(share->staged, share->data, first, count, to);
    else KOLO_TRY(kolo_data_gather(share->data, &call, order, batch->first + first, count, to));
    return kolo_tokens_check(plan, batch, first, count, to->features);
}

/* The copier waits until the device's side is free, the queue until the copy is there. */
static kolo_status copy_stage(kolo_residence *residence, kolo_stage *stage, size_t bytes)
{
    const kolo_accelerator *accelerator = accelerator_of(residence);
    if (stage->computed) KOLO_TRY(accelerator->follow(residence->copier, stage->computed));
    KOLO_TRY(accelerator->copy(residence->copier, stage->block, stage->host, bytes));
    KOLO_TRY(accelerator->set_mark(residence->copier, &stage->copied));
    return accelerator->follow(queue_of(residence), stage->copied);
}

static kolo_status bring_staged(kolo_residence *residence, const kolo_share *share, kolo_moment *moment)
{
    const kolo_batch *batch = share->batch;
    int64_t first = share->first_leaf * batch->leaf, end = share->end_leaf * batch->leaf;
    size_t bytes;
    if (end > batch->samples) end = batch->samples;
    residence->stage = (int)(residence->shares++ % KOLO_STAGES);
    kolo_stage *stage = &residence->stages[residence->stage];
    residence->sources = sources_of(residence, share->data, stage);
    moment->first = -first;
    if (first >= end) return KOLO_OK;
    if (stage->copied) KOLO_TRY(accelerator_of(residence)->wait_mark(residence->copier, stage->copied));
    kolo_gathered to = arrays_in(&residence->program->plan, share->data, stage->host, residence->room, &bytes);
    KOLO_TRY(gather_share(residence, share, first, (int)(end - first), &to));
    return copy_stage(residence, stage, bytes);
}

kolo_status kolo_residence_done(kolo_residence *residence)
{
    if (!residence->staged) return KOLO_OK;
    return accelerator_of(residence)->set_mark(queue_of(residence), &residence->stages[residence->stage].computed);
}

/* ---------------------------------------------------------------- the calls */

kolo_status kolo_residence_attach(kolo_residence *residence, const kolo_program *program, const kolo_data *data,
                                  int64_t wanted)
{
    bool stays = !data->view && wanted > data->samples / WANTED_PART;
    residence->program = program;
    if (stays || !residence->staged) release(residence); /* stages serve any data set */
    residence->host_order = NULL;
    residence->data = data;
    residence->staged = !stays || !fits(residence, data);
    if (residence->staged) return KOLO_OK;
    kolo_status status = make_resident(residence, data);
    if (status != KOLO_MEMORY) return status;
    kolo_failure_take(); /* another process was faster */
    kolo_residence_yield(residence);
    return KOLO_OK;
}

bool kolo_residence_yield(kolo_residence *residence)
{
    if (!residence->program || residence->staged) return false;
    const kolo_data *data = residence->data;
    release(residence);
    residence->data = data;
    return residence->staged = true;
}

static kolo_status open_order(kolo_residence *residence, int64_t count)
{
    const kolo_accelerator *accelerator = accelerator_of(residence);
    if (count <= residence->order_room) return KOLO_OK;
    accelerator->release(queue_of(residence), residence->order);
    residence->order = NULL;
    residence->version++;
    residence->order_room = 0;
    size_t bytes = (size_t)count * sizeof *residence->order;
    KOLO_TRY(accelerator->allocate(queue_of(residence), bytes, "the order of the samples", (void **)&residence->order));
    residence->order_room = count;
    return KOLO_OK;
}

kolo_status kolo_residence_expect(kolo_residence *residence, int64_t share, int64_t batch)
{
    return residence->staged ? make_room(residence, residence->data, share) : open_order(residence, batch);
}

kolo_status kolo_residence_order(kolo_residence *residence, const int32_t *order, int64_t count)
{
    const kolo_accelerator *accelerator = accelerator_of(residence);
    residence->host_order = order;
    residence->order_count = count;
    if (!order || residence->staged) return KOLO_OK;
    KOLO_TRY(open_order(residence, count));
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
