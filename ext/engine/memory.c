/* The engine's memory for a shard: activations, totals and their readbacks. See engine.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* ---------------------------------------------------------------- activations */

/* The largest number of unfinished microbatches: all of them if the program reduces; one per lane if it has one stage;
 * else one group per stage. */
static int slots_for(const kolo_engine *engine, int64_t microbatches)
{
    int64_t most = (int64_t)engine->stage_count * engine->group;
    if (engine->program->reduces) return (int)microbatches;
    if (engine->stage_count == 1) return engine->contexts[0].lanes;
    return (int)(microbatches < most ? microbatches : most);
}

static void close_activations(kolo_engine *engine)
{
    for (int c = 0; c < engine->context_count; c++) kolo_device_context_close_activations(&engine->contexts[c]);
    free(engine->gradients);
    engine->gradients = NULL;
    engine->slots = 0;
    engine->memory_version++;
}

static kolo_status open_activations(kolo_engine *engine, int64_t microbatches)
{
    int wanted = slots_for(engine, microbatches);
    if (wanted <= engine->slots) return KOLO_OK;
    close_activations(engine);
    engine->gradients = calloc((size_t)wanted, sizeof *engine->gradients);
    if (!engine->gradients) return kolo_fail_memory((size_t)wanted * sizeof *engine->gradients, "activations");
    for (int c = 0; c < engine->context_count; c++)
        KOLO_TRY(kolo_device_context_open_activations(&engine->contexts[c], &engine->contexts[0], wanted));
    engine->slots = wanted;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- totals */

static void close_totals(kolo_engine *engine)
{
    engine->streams->release(engine->stream, engine->totals);
    engine->streams->release(engine->stream, engine->parts);
    for (int m = 1; m < engine->program->memories; m++)
        engine->streams->release(engine->contexts[m].stream, engine->contexts[m].totals);
    for (int c = 0; c < engine->context_count; c++) engine->contexts[c].totals = NULL;
    engine->totals = engine->parts = NULL;
    engine->totals_room = 0;
}

/* The contexts with a memory of their own add to totals there. end_contexts() in shard.c sums them. */
static kolo_status open_parts(kolo_engine *engine, size_t bytes)
{
    kolo_device_context *home = &engine->contexts[0];
    KOLO_TRY(engine->streams->allocate(engine->stream, (size_t)engine->part_count * bytes, "sums of losses",
                                       (void **)&engine->parts));
    home->totals = home->receives_labels ? engine->parts : NULL;
    for (int c = 1; c < engine->context_count; c++) {
        kolo_device_context *context = &engine->contexts[c];
        context->totals = NULL; /* it may not use home's totals, which are in another memory */
        if (context->receives_labels)
            KOLO_TRY(engine->streams->allocate(context->stream, bytes, "sums of losses", (void **)&context->totals));
    }
    return KOLO_OK;
}

static kolo_status open_totals(kolo_engine *engine, int64_t microbatches)
{
    size_t bytes = (size_t)microbatches * engine->totals_stride;
    if (microbatches <= engine->totals_room) return KOLO_OK;
    close_totals(engine);
    engine->memory_version++;
    KOLO_TRY(engine->streams->allocate(engine->stream, bytes, "sums of losses", (void **)&engine->totals));
    KOLO_TRY(engine->streams->clear(engine->stream, engine->totals, bytes)); /* a shard may write no extras */
    for (int c = 0; c < engine->context_count; c++)
        if (c == 0 || !kolo_device_context_owns(&engine->contexts[c])) engine->contexts[c].totals = engine->totals;
    if (engine->part_count > 0) KOLO_TRY(open_parts(engine, bytes));
    engine->totals_room = microbatches;
    return KOLO_OK;
}

/* Allocates the readbacks. Pending ones keep their contents. */
static kolo_status open_readbacks(kolo_engine *engine, int64_t microbatches)
{
    size_t bytes = (size_t)microbatches * engine->totals_stride,
           before = (size_t)engine->readback_room * engine->totals_stride;
    char *block = NULL;
    if (microbatches <= engine->readback_room) return KOLO_OK;
    KOLO_TRY(engine->streams->synchronize(engine->stream));
    KOLO_TRY(engine->streams->allocate_host(engine->stream, KOLO_STEPS_AHEAD * bytes, (void **)&block));
    for (size_t i = 0; i < KOLO_STEPS_AHEAD; i++) {
        if (before > 0) memcpy(block + i * bytes, engine->readback_block + i * before, before);
        engine->readbacks[i].totals = block + i * bytes;
    }
    engine->streams->release_host(engine->stream, engine->readback_block);
    engine->readback_block = block;
    engine->readback_room = microbatches;
    engine->memory_version++;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- interface */

/* Makes the tree, or the buckets' trees, allocate memory for two gradients now. A tree keeps returned memory for the
 * next borrower. */
static kolo_status open_gradients(kolo_engine *engine)
{
    float *gradients[2] = {NULL, NULL};
    if (engine->streams->steps_ahead == 0) return KOLO_OK;
    if (engine->in_buckets) return kolo_buckets_reserve(engine->buckets);
    if (!engine->tree || engine->program->reduces) return KOLO_OK;
    kolo_status status = kolo_reduction_borrow(engine->tree, &gradients[0]);
    if (status == KOLO_OK) status = kolo_reduction_borrow(engine->tree, &gradients[1]);
    for (int i = 0; i < 2; i++) kolo_reduction_return(engine->tree, gradients[i]);
    return status;
}

static kolo_status open_all(kolo_engine *engine, int64_t microbatches)
{
    KOLO_TRY(open_activations(engine, microbatches));
    KOLO_TRY(open_totals(engine, microbatches + 1));
    KOLO_TRY(open_readbacks(engine, microbatches + 1));
    return open_gradients(engine);
}

/* If there is not enough memory, frees the resident data set. Samples are staged shard by shard from then on. */
kolo_status kolo_engine_reserve(kolo_engine *engine, int64_t microbatches)
{
    if (microbatches < 1) microbatches = 1;
    kolo_status status = open_all(engine, microbatches);
    if (status != KOLO_MEMORY || !kolo_dataset_cache_yield(&engine->cache)) return status;
    kolo_failure_take();
    return open_all(engine, microbatches);
}

kolo_status kolo_engine_attach(kolo_engine *engine, const kolo_data *data, int64_t samples, int64_t wanted)
{
    KOLO_TRY(engine->streams->synchronize(engine->stream));
    for (int i = 0; i < KOLO_STEPS_AHEAD; i++)
        engine->readbacks[i].pending = false; /* left by an interrupted training */
    engine->read_back = engine->enqueued;
    KOLO_TRY(kolo_engine_rewind_ring(engine, engine->enqueued));
    KOLO_TRY(kolo_engine_reserve_reductions(engine, samples));
    KOLO_TRY(kolo_dataset_cache_attach(&engine->cache, engine->program, data, wanted));
    return kolo_dataset_cache_expect(&engine->cache, (engine->totals_room - 1) * engine->program->plan.microbatch,
                                     samples);
}

void kolo_engine_close_memory(kolo_engine *engine)
{
    close_activations(engine);
    close_totals(engine);
    for (int i = 0; i < KOLO_STEPS_AHEAD; i++) engine->streams->free_event(engine->stream, engine->readbacks[i].event);
    engine->streams->free_event(engine->stream, engine->corrected);
    engine->streams->release_host(engine->stream, engine->readback_block);
    engine->streams->release_host(engine->stream, engine->parameter_ring);
}
