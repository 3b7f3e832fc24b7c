/* The graph cache: steps that were captured and are launched again. See engine.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* ---------------------------------------------------------------- entries */

static kolo_graph_key key_of(const kolo_engine *engine, const kolo_shard *shard)
{
    return (kolo_graph_key){.first_microbatch = shard->first_microbatch,
                            .end_microbatch = shard->end_microbatch,
                            .microbatches = kolo_batch_microbatches(shard->batch),
                            .ordered = engine->cache.ordered,
                            .staging_buffer = engine->cache.staging_buffer,
                            .address_version = engine->cache.address_version,
                            .memory_version = engine->memory_version,
                            .in_buckets = engine->in_buckets,
                            .updates = engine->update != NULL};
}

static void free_graphs(kolo_engine *engine, kolo_graph_entry *entry)
{
    for (int i = 0; i < entry->graph_count; i++) engine->streams->free_graph(engine->stream, entry->graphs[i].graph);
    free(entry->graphs);
    entry->graphs = NULL;
    entry->graph_count = 0;
}

static void free_entry(kolo_engine *engine, kolo_graph_entry *entry)
{
    free_graphs(engine, entry);
    free(entry->nodes);
    *entry = (kolo_graph_entry){0};
}

void kolo_engine_forget_graphs(kolo_engine *engine)
{
    for (int i = 0; i < KOLO_GRAPHS; i++) free_entry(engine, &engine->graphs[i]);
}

/* A free entry, or else the one that was used longest ago. */
static kolo_status new_entry(kolo_engine *engine, const kolo_graph_key *key, kolo_graph_entry **entry)
{
    kolo_graph_entry *oldest = &engine->graphs[0];
    for (int i = 1; i < KOLO_GRAPHS; i++)
        if (engine->graphs[i].used < oldest->used) oldest = &engine->graphs[i];
    free_graphs(engine, oldest);
    kolo_gradient_node *nodes = oldest->nodes ? oldest->nodes : calloc(KOLO_REDUCTION_NODES_MAX, sizeof *nodes);
    if (!nodes) return kolo_fail_memory(KOLO_REDUCTION_NODES_MAX * sizeof *nodes, "a captured graph");
    *oldest = (kolo_graph_entry){.key = *key, .nodes = nodes};
    *entry = oldest;
    return KOLO_OK;
}

static kolo_status find_entry(kolo_engine *engine, const kolo_shard *shard, kolo_graph_entry **entry)
{
    const kolo_graph_key key = key_of(engine, shard);
    for (int i = 0; i < KOLO_GRAPHS; i++) {
        *entry = &engine->graphs[i];
        if ((*entry)->nodes && memcmp(&(*entry)->key, &key, sizeof key) == 0) return KOLO_OK;
    }
    return new_entry(engine, &key, entry);
}

/* ---------------------------------------------------------------- captures */

/* Takes the nodes out of the tree and returns their memory to it. The memory stays valid until the update: only
 * the next shard borrows it again, and the stream runs that shard later. */
static kolo_status take_nodes(kolo_engine *engine, kolo_gradient_node *taken, int *count)
{
    kolo_node *nodes = calloc(KOLO_REDUCTION_NODES_MAX, sizeof *nodes);
    if (!nodes) return kolo_fail_memory(KOLO_REDUCTION_NODES_MAX * sizeof *nodes, "the tree of sums");
    *count = kolo_reduction_take(engine->tree, nodes);
    for (int i = 0; i < *count; i++) {
        taken[i] = (kolo_gradient_node){nodes[i].level, nodes[i].index, nodes[i].gradient};
        kolo_reduction_return(engine->tree, nodes[i].gradient);
    }
    free(nodes);
    return KOLO_OK;
}

/* Enqueues the work of a step that can be captured. The update is a part of it in a capture alone: otherwise its owner
 * enqueues it. */
static kolo_status enqueue(kolo_engine *engine, const kolo_shard *shard)
{
    kolo_graph_entry *entry = engine->entry;
    KOLO_TRY(kolo_engine_enqueue(engine, shard));
    if (entry) KOLO_TRY(take_nodes(engine, entry->nodes, &entry->node_count));
    return engine->capturing && engine->update ? engine->update(engine->update_owner) : KOLO_OK;
}

/* A step is not captured while it is profiled, because a profiler would see its layers only once. It is not captured
 * either if it reduces over other members, because the host waits for such a sum. */
static bool can_be_captured(const kolo_engine *engine, const kolo_shard *shard)
{
    const kolo_program *program = engine->program;
    const char *ranges = getenv("KOLO_NVTX");
    if (engine->eager || (ranges && strcmp(ranges, "1") == 0)) return false;
    for (int s = 0; s < program->segment_count; s++)
        if (program->segments[s].reduce >= 0 &&
            kolo_engine_reduces_over_group(engine, shard, program->segments[s].reduce))
            return false;
    return true;
}

static void turn_eager(kolo_engine *engine)
{
    kolo_failure failure = kolo_failure_take();
    kolo_warn("operations are enqueued one by one in each step, since a step cannot be captured: %s", failure.text);
    engine->eager = true;
}

static kolo_status begin_graph(kolo_engine *engine, kolo_graph_entry *entry)
{
    KOLO_TRY(engine->streams->begin_capture(engine->stream));
    engine->capturing = entry;
    return KOLO_OK;
}

/* bucket: see kolo_step_graph. */
static kolo_status end_graph(kolo_engine *engine, int bucket)
{
    kolo_graph_entry *entry = engine->capturing;
    engine->capturing = NULL;
    entry->graphs[entry->graph_count] = (kolo_step_graph){.bucket = bucket};
    KOLO_TRY(engine->streams->end_capture(engine->stream, &entry->graphs[entry->graph_count].graph));
    entry->graph_count++;
    return KOLO_OK;
}

/* An event that is recorded within a capture is a part of the graph, and no stream outside can wait for it. */
kolo_status kolo_engine_end_bucket(kolo_engine *engine, int bucket)
{
    kolo_graph_entry *entry = engine->capturing;
    if (!entry) return engine->streams->record_event(engine->stream, &engine->bucket_events[bucket]);
    KOLO_TRY(end_graph(engine, bucket));
    return begin_graph(engine, entry);
}

static kolo_status launch(kolo_engine *engine, const kolo_graph_entry *entry)
{
    for (int i = 0; i < entry->graph_count; i++) {
        const kolo_step_graph *part = &entry->graphs[i];
        KOLO_TRY(engine->streams->launch(engine->stream, part->graph));
        if (part->bucket >= 0)
            KOLO_TRY(engine->streams->record_event(engine->stream, &engine->bucket_events[part->bucket]));
    }
    return KOLO_OK;
}

static kolo_status capture(kolo_engine *engine, const kolo_shard *shard, kolo_graph_entry *entry)
{
    size_t most = engine->in_buckets ? (size_t)engine->buckets->count : 1;
    entry->graphs = calloc(most, sizeof *entry->graphs);
    if (!entry->graphs) return kolo_fail_memory(most * sizeof *entry->graphs, "a captured graph");
    KOLO_TRY(begin_graph(engine, entry));
    kolo_status status = enqueue(engine, shard);
    kolo_status ended = engine->capturing ? end_graph(engine, -1) : KOLO_OK;
    KOLO_TRY(status);
    KOLO_TRY(ended);
    return launch(engine, entry);
}

/* Begins the shard's sums again, after a capture that has run nothing. */
static void begin_sums(kolo_engine *engine, const kolo_shard *shard)
{
    int64_t microbatches = kolo_batch_microbatches(shard->batch);
    kolo_reduction_begin(engine->tree, microbatches);
    if (engine->in_buckets) kolo_buckets_begin(engine->buckets, microbatches, engine->buckets->expected);
}

/* Synchronizes before the first run and before the capture. Otherwise the driver may wait until the device is idle
 * before it loads kernels, while other devices wait for this thread. Of a capture that fails nothing has run, or the
 * first of several graphs. */
static kolo_status enqueue_anew(kolo_engine *engine, const kolo_shard *shard, kolo_graph_entry *entry)
{
    bool captures = entry->run_before && can_be_captured(engine, shard);
    if (captures || !entry->run_before) KOLO_TRY(engine->streams->synchronize(engine->stream));
    entry->run_before = true;
    if (!captures) return enqueue(engine, shard);
    kolo_status status = capture(engine, shard, entry);
    if (status == KOLO_OK || status == KOLO_INTERRUPTED) return status;
    turn_eager(engine);
    free_graphs(engine, entry);
    begin_sums(engine, shard);
    KOLO_TRY(kolo_engine_rewind_ring(engine, engine->enqueued - 1));
    return enqueue(engine, shard);
}

kolo_status kolo_engine_enqueue_or_launch(kolo_engine *engine, const kolo_shard *shard)
{
    engine->entry = NULL;
    if (!engine->streams->begin_capture) return enqueue(engine, shard);
    kolo_graph_entry *entry = NULL;
    KOLO_TRY(find_entry(engine, shard, &entry));
    entry->used = engine->enqueued;
    engine->entry = entry;
    if (entry->graph_count > 0) return launch(engine, entry);
    kolo_status status = enqueue_anew(engine, shard, entry);
    if (status == KOLO_OK) return KOLO_OK;
    free_entry(engine, entry);
    engine->entry = NULL;
    return status;
}

bool kolo_engine_has_updated(const kolo_engine *engine)
{
    return engine->entry && engine->entry->graph_count > 0 && engine->entry->key.updates;
}

kolo_status kolo_engine_nodes(kolo_engine *engine, kolo_gradient_node *nodes, int *count)
{
    if (!engine->entry) return take_nodes(engine, nodes, count);
    *count = engine->entry->node_count;
    memcpy(nodes, engine->entry->nodes, (size_t)*count * sizeof *nodes);
    return KOLO_OK;
}
