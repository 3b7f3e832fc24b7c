/* Totals come to the host, as late as the stream allows: see engine.h. */
#include <string.h>

#include "engine/engine.h"

kolo_totals_extras *kolo_engine_extras(const kolo_engine *engine, char *totals, int64_t microbatches)
{
    void *behind = totals + (size_t)microbatches * engine->totals_stride;
    return behind;
}

kolo_status kolo_engine_send_totals(kolo_engine *engine, const kolo_shard *shard)
{
    kolo_arrival *arrival = &engine->arrivals[(engine->given - 1) % KOLO_STEPS_AHEAD];
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch;
    size_t bytes = (size_t)(microbatches + 1) * engine->totals_stride;
    arrival->first_microbatch = shard->first_microbatch;
    arrival->end_microbatch = shard->end_microbatch;
    arrival->microbatches = kolo_batch_microbatches(shard->batch);
    KOLO_TRY(engine->streams->copy(engine->stream, arrival->totals, engine->totals, bytes));
    arrival->comes = true;
    return engine->streams->record_event(engine->stream, &arrival->event);
}

static void read_totals(const kolo_engine *engine, const char *from, kolo_totals *totals)
{
    int sums = engine->program->plan.metric_sums;
    memcpy(totals, from, offsetof(kolo_totals, sums) + (size_t)sums * sizeof(double));
    totals->stops = 0;
    totals->used = sums;
}

/* Waits for them. */
static kolo_status insert(kolo_engine *engine, kolo_arrival *arrival, kolo_reduction *tree)
{
    KOLO_TRY(engine->streams->synchronize_event(engine->stream, arrival->event));
    kolo_node node = {0};
    for (int64_t microbatch = arrival->first_microbatch; microbatch < arrival->end_microbatch; microbatch++) {
        node.index = microbatch;
        node.level = 0;
        read_totals(engine, arrival->totals + (size_t)(microbatch - arrival->first_microbatch) * engine->totals_stride,
                    &node.totals);
        KOLO_TRY(kolo_reduction_insert(tree, node));
    }
    const kolo_totals_extras *behind =
        kolo_engine_extras(engine, arrival->totals, arrival->end_microbatch - arrival->first_microbatch);
    engine->penalty = engine->penalised ? behind->penalty : 0;
    if (engine->scaling) engine->seen = behind->seen;
    arrival->comes = false;
    return KOLO_OK;
}

/* Shares whose totals are to be read now: all, or those that have to make room for the next. */
static int64_t due(const kolo_engine *engine, bool wait)
{
    int ahead = engine->streams->steps_ahead;
    return wait || ahead == 0 ? engine->given : engine->given - ahead + 1;
}

kolo_status kolo_engine_insert_arrived(kolo_engine *engine, bool wait, kolo_reduction *tree)
{
    for (int64_t end = due(engine, wait); engine->arrived < end; engine->arrived++) {
        kolo_arrival *arrival = &engine->arrivals[engine->arrived % KOLO_STEPS_AHEAD];
        if (arrival->comes) KOLO_TRY(insert(engine, arrival, tree));
    }
    return KOLO_OK;
}

/* Each sample's loss has the penalty in it. */
static kolo_status add_arrival(kolo_engine *engine, kolo_arrival *arrival, kolo_totals *totals)
{
    kolo_reduction_begin(engine->totals_tree, arrival->microbatches);
    KOLO_TRY(insert(engine, arrival, engine->totals_tree));
    kolo_totals sum = kolo_reduction_totals(engine->totals_tree);
    sum.loss += sum.samples * engine->penalty;
    kolo_totals_add(totals, &sum);
    return KOLO_OK;
}

kolo_status kolo_engine_arrive(kolo_engine *engine, bool wait, kolo_totals *totals)
{
    totals->used = engine->program->plan.metric_sums;
    for (int64_t end = due(engine, wait); engine->arrived < end; engine->arrived++) {
        kolo_arrival *arrival = &engine->arrivals[engine->arrived % KOLO_STEPS_AHEAD];
        if (arrival->comes) KOLO_TRY(add_arrival(engine, arrival, totals));
    }
    return KOLO_OK;
}
