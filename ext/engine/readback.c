/* Reads totals back to the host, as late as the stream allows: see engine.h. */
#include <string.h>

#include "core/timeline.h"
#include "engine/engine.h"

kolo_totals_extras *kolo_engine_extras(const kolo_engine *engine, char *totals, int64_t microbatches)
{
    void *behind = totals + (size_t)microbatches * engine->totals_stride;
    return behind;
}

kolo_status kolo_engine_copy_totals(kolo_engine *engine, const kolo_shard *shard)
{
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch;
    return engine->streams->copy_to_ring(engine->stream, engine->readback_block,
                                         (size_t)engine->readback_room * engine->totals_stride, engine->step_parameters,
                                         engine->totals, (size_t)(microbatches + 1) * engine->totals_stride);
}

kolo_status kolo_engine_expect_totals(kolo_engine *engine, const kolo_shard *shard)
{
    kolo_readback *readback = &engine->readbacks[(engine->enqueued - 1) % KOLO_STEPS_AHEAD];
    readback->first_microbatch = shard->first_microbatch;
    readback->end_microbatch = shard->end_microbatch;
    readback->microbatches = kolo_batch_microbatches(shard->batch);
    readback->pending = true;
    return engine->streams->record_event(engine->stream, &readback->event);
}

static void read_totals(const kolo_engine *engine, const char *from, kolo_totals *totals)
{
    int sums = engine->program->plan.metric_sums;
    memcpy(totals, from, offsetof(kolo_totals, sums) + (size_t)sums * sizeof(double));
    totals->stops = 0;
    totals->used = sums;
}

static kolo_status insert(kolo_engine *engine, kolo_readback *readback, kolo_reduction *tree)
{
    int64_t begun = engine->streams->steps_ahead > 0 ? kolo_timeline_begin() : 0;
    KOLO_TRY(engine->streams->synchronize_event(engine->stream, readback->event));
    kolo_timeline_end(begun, KOLO_SPAN_WAIT, "device");
    kolo_node node = {0};
    for (int64_t microbatch = readback->first_microbatch; microbatch < readback->end_microbatch; microbatch++) {
        node.index = microbatch;
        node.level = 0;
        read_totals(engine,
                    readback->totals + (size_t)(microbatch - readback->first_microbatch) * engine->totals_stride,
                    &node.totals);
        KOLO_TRY(kolo_reduction_insert(tree, node));
    }
    const kolo_totals_extras *behind =
        kolo_engine_extras(engine, readback->totals, readback->end_microbatch - readback->first_microbatch);
    engine->penalty = engine->penalised ? behind->penalty : 0;
    if (engine->scaling) engine->seen = behind->seen;
    readback->pending = false;
    return KOLO_OK;
}

/* The number of shards whose totals have to be read by now: all, or all but the newest steps_ahead - 1. */
static int64_t due(const kolo_engine *engine, bool wait)
{
    int ahead = engine->streams->steps_ahead;
    return wait || ahead == 0 ? engine->enqueued : engine->enqueued - ahead + 1;
}

kolo_status kolo_engine_read_back_into(kolo_engine *engine, bool wait, kolo_reduction *tree)
{
    for (int64_t end = due(engine, wait); engine->read_back < end; engine->read_back++) {
        kolo_readback *readback = &engine->readbacks[engine->read_back % KOLO_STEPS_AHEAD];
        if (readback->pending) KOLO_TRY(insert(engine, readback, tree));
    }
    return KOLO_OK;
}

/* Adds the penalty to the loss of each sample. */
static kolo_status add_readback(kolo_engine *engine, kolo_readback *readback, kolo_totals *totals)
{
    kolo_reduction_begin(engine->totals_tree, readback->microbatches);
    KOLO_TRY(insert(engine, readback, engine->totals_tree));
    kolo_totals sum = kolo_reduction_totals(engine->totals_tree);
    sum.loss += sum.samples * engine->penalty;
    kolo_totals_add(totals, &sum);
    return KOLO_OK;
}

kolo_status kolo_engine_read_back(kolo_engine *engine, bool wait, kolo_totals *totals)
{
    totals->used = engine->program->plan.metric_sums;
    for (int64_t end = due(engine, wait); engine->read_back < end; engine->read_back++) {
        kolo_readback *readback = &engine->readbacks[engine->read_back % KOLO_STEPS_AHEAD];
        if (readback->pending) KOLO_TRY(add_readback(engine, readback, totals));
    }
    return KOLO_OK;
}
