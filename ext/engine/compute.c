/* Computes shards and waits for them: scores, outputs, gradients. See engine.h. */
#include <stdlib.h>

#include "engine/engine.h"

#define AT_ONCE 8192 /* samples that are enqueued between two readbacks, unless the program reduces */

/* Attaches the data for every call, since the caller may have changed it. */
kolo_status kolo_engine_stage_samples(kolo_engine *engine, const kolo_shard *shard)
{
    int64_t samples = shard->batch->samples, microbatches = shard->end_microbatch - shard->first_microbatch;
    KOLO_TRY(kolo_engine_reserve(engine, engine->program->reduces ? microbatches : 1));
    return kolo_engine_attach(engine, shard->data, shard->batch->order ? samples : 0, samples);
}

/* The number of microbatches between two readbacks: all if the program reduces. It is 1 if one microbatch keeps the
 * device busy, which takes the least memory. */
static int64_t microbatches_at_once(const kolo_engine *engine, const kolo_shard *shard)
{
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch,
            some = AT_ONCE / engine->program->plan.microbatch;
    if (engine->program->reduces) return microbatches;
    if (kolo_backend_fills_device(engine->program->backend)) some = 1;
    return microbatches < some ? microbatches : some > 0 ? some : 1;
}

static kolo_status compute_part(kolo_engine *engine, const kolo_shard *part)
{
    KOLO_TRY(kolo_engine_prepare(engine, part, NULL));
    KOLO_TRY(kolo_engine_enqueue(engine, part));
    KOLO_TRY(kolo_dataset_cache_done(&engine->cache));
    KOLO_TRY(kolo_engine_expect_totals(engine, part));
    return kolo_engine_read_back_into(engine, false, engine->totals_tree);
}

static kolo_status compute_parts(kolo_engine *engine, const kolo_shard *shard)
{
    int64_t some = microbatches_at_once(engine, shard), microbatch = shard->first_microbatch;
    kolo_reduction_begin(engine->totals_tree, kolo_batch_microbatches(shard->batch));
    do { /* at least once, also for an empty shard: other members may wait for this one in a reduction */
        kolo_shard part = *shard;
        part.first_microbatch = microbatch;
        part.end_microbatch = microbatch + some < shard->end_microbatch ? microbatch + some : shard->end_microbatch;
        KOLO_TRY(compute_part(engine, &part));
        microbatch += some;
    } while (microbatch < shard->end_microbatch && some > 0);
    KOLO_TRY(kolo_engine_read_back_into(engine, true, engine->totals_tree));
    return engine->streams->synchronize(engine->stream);
}

/* Copies the totals to the nodes of gradients. Both trees have the same nodes. */
static kolo_status join_nodes(kolo_node *gradients, int count, const kolo_node *totals, int total_count)
{
    if (count != total_count)
        return kolo_fail(KOLO_INTERNAL, "the tree of gradients has %d nodes, that of totals %d", count, total_count);
    for (int i = 0; i < count; i++) gradients[i].totals = totals[i].totals;
    return KOLO_OK;
}

static kolo_status hand_over(kolo_engine *engine, kolo_reduction *reduction)
{
    kolo_node *totals = calloc(2 * (size_t)KOLO_REDUCTION_NODES_MAX, sizeof *totals),
              *nodes = totals + KOLO_REDUCTION_NODES_MAX;
    if (!totals) return kolo_fail_memory(2 * (size_t)KOLO_REDUCTION_NODES_MAX * sizeof *totals, "the tree of sums");
    int count = kolo_reduction_take(engine->totals_tree, totals);
    kolo_status status = KOLO_OK;
    if (engine->tree) {
        int gradients = kolo_reduction_take(reduction, nodes);
        status = join_nodes(nodes, gradients, totals, count);
        for (int i = 0; i < gradients && status != KOLO_OK; i++) kolo_reduction_return(reduction, nodes[i].gradient);
    }
    for (int i = 0; i < count && status == KOLO_OK; i++)
        status = kolo_reduction_insert(reduction, engine->tree ? nodes[i] : totals[i]);
    free(totals);
    return status;
}

kolo_status kolo_engine_compute(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction)
{
    engine->tree = reduction && engine->program->plan.training ? reduction : NULL;
    kolo_status status = compute_parts(engine, shard);
    if (status == KOLO_OK && reduction) status = hand_over(engine, reduction);
    engine->tree = NULL;
    return status;
}

kolo_status kolo_engine_run(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction)
{
    KOLO_TRY(kolo_engine_stage_samples(engine, shard));
    return kolo_engine_compute(engine, shard, reduction);
}
