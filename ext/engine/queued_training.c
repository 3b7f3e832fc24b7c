/* Shares that are captured and replayed, and their totals, which are read later: see queued.h. */
#include <stdlib.h>
#include <string.h>
#include "engine/queued.h"

/* ---------------------------------------------------------------- captured graphs */

static bool serves(const kolo_graph_entry *entry, const kolo_queued *queued, const kolo_shard *shard)
{
    return entry->nodes && entry->first_microbatch == shard->first_microbatch &&
           entry->end_microbatch == shard->end_microbatch &&
           entry->microbatches == kolo_batch_microbatches(shard->batch) &&
           entry->ordered == queued->dataset_cache.ordered &&
           entry->staging_buffer == queued->dataset_cache.staging_buffer &&
           entry->version == queued->dataset_cache.version && entry->memory == queued->memory;
}

static kolo_status new_entry(kolo_queued *queued, const kolo_shard *shard, kolo_graph_entry **entry)
{
    kolo_graph_entry *oldest = &queued->entries[0];
    for (int i = 1; i < KOLO_GRAPH_CACHE_ENTRIES; i++)
        if (queued->entries[i].used < oldest->used) oldest = &queued->entries[i];
    queued->accelerator->free_captured_graph(queued->stream, oldest->captured_graph);
    queued->accelerator->free_captured_graph(queued->stream, oldest->after);
    oldest->captured_graph = oldest->after = NULL;
    oldest->given = false;
    if (!oldest->nodes) oldest->nodes = calloc(KOLO_REDUCTION_MOST, sizeof *oldest->nodes);
    if (!oldest->nodes) return kolo_fail_memory(KOLO_REDUCTION_MOST * sizeof *oldest->nodes, "a recording");
    oldest->first_microbatch = shard->first_microbatch;
    oldest->end_microbatch = shard->end_microbatch;
    oldest->microbatches = kolo_batch_microbatches(shard->batch);
    oldest->ordered = queued->dataset_cache.ordered;
    oldest->staging_buffer = queued->dataset_cache.staging_buffer;
    oldest->version = queued->dataset_cache.version;
    oldest->memory = queued->memory;
    oldest->node_count = 0;
    *entry = oldest;
    return KOLO_OK;
}

/* What stands behind the totals of a shard's microbatches. */
typedef struct extras {
    double penalty;
    kolo_scaling seen;
} extras;
_Static_assert(sizeof(extras) <= 64, "totals_stride is at least that");

static extras *extras_of(const kolo_queued *queued, char *totals, int64_t microbatches)
{
    void *behind = totals + (size_t)microbatches * queued->totals_stride;
    return behind;
}

/* The shard, and its sums up the tree. Their memory is the reduction's again, but nobody takes it before they are read:
 * what follows in the stream does. */
static kolo_status give_microbatches(kolo_queued *queued, const kolo_shard *shard, kolo_graph_entry *entry,
                                     float **gradients)
{
    kolo_queued_job j = {.queued = queued, .shard = shard, .gradients = gradients};
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch;
    kolo_reduction_begin(queued->reduction, entry->microbatches);
    for (int64_t i = 0; i < microbatches; i++) KOLO_TRY(kolo_reduction_borrow(queued->reduction, &gradients[i]));
    extras *behind = extras_of(queued, queued->totals, microbatches);
    const kolo_accelerator *accelerator = queued->accelerator;
    if (queued->scaling)
        KOLO_TRY(accelerator->fill_step_parameters(queued->stream, queued->step_parameters, queued->scaling,
                                                   &behind->seen));
    KOLO_TRY(kolo_queued_microbatches(&j));
    if (queued->penalised) KOLO_TRY(accelerator->penalty(queued->stream, queued->penalised, &behind->penalty));
    for (int64_t i = 0; i < microbatches; i++) {
        kolo_node node = {.index = shard->first_microbatch + i, .gradient = gradients[i]};
        gradients[i] = NULL;
        KOLO_TRY(kolo_reduction_insert(queued->reduction, node));
    }
    return KOLO_OK;
}

static kolo_status keep_nodes(kolo_queued *queued, kolo_graph_entry *entry)
{
    kolo_node *nodes = calloc(KOLO_REDUCTION_MOST, sizeof *nodes);
    if (!nodes) return kolo_fail_memory(KOLO_REDUCTION_MOST * sizeof *nodes, "a recording");
    entry->node_count = kolo_reduction_take(queued->reduction, nodes);
    for (int i = 0; i < entry->node_count; i++) {
        entry->nodes[i] = (kolo_queued_node){nodes[i].level, nodes[i].index, nodes[i].gradient};
        kolo_reduction_return(queued->reduction, nodes[i].gradient);
    }
    free(nodes);
    return KOLO_OK;
}

/* A captured graph would show a profiler its layers once, and not at every step. */
static bool can_be_recorded(const kolo_queued *queued, const kolo_shard *shard)
{
    const kolo_program *program = queued->program;
    const char *ranges = getenv("KOLO_NVTX");
    if (ranges && strcmp(ranges, "1") == 0) return false;
    if (queued->by_hand) return false;
    kolo_queued_job j = {.queued = (kolo_queued *)(uintptr_t)queued, .shard = shard};
    for (int s = 0; s < program->segment_count; s++)
        if (program->segments[s].reduce >= 0 && kolo_queued_asks_others(&j, program->segments[s].reduce)) return false;
    return true;
}

void kolo_queued_give_by_hand(kolo_queued *queued)
{
    kolo_failure failure = kolo_failure_take();
    kolo_warn("steps are given to the device one operation at a time, since they cannot be recorded: %s", failure.text);
    queued->by_hand = true;
}

static kolo_status record_entry(kolo_queued *queued, const kolo_shard *shard, kolo_graph_entry *entry,
                                float **gradients)
{
    const kolo_accelerator *accelerator = queued->accelerator;
    KOLO_TRY(accelerator->begin_capture(queued->stream));
    kolo_status status = give_microbatches(queued, shard, entry, gradients);
    kolo_status ended = accelerator->end_capture(queued->stream, &entry->captured_graph);
    KOLO_TRY(status);
    KOLO_TRY(ended);
    return accelerator->launch(queued->stream, entry->captured_graph);
}

/* What is done for the first time, or captured, is done while the device is idle: the driver may wait for that as it
 * loads kernels, and hold up the thread meanwhile for whose device this one's would wait. Where a captured graph fails
 * nothing of it was done. */
static kolo_status give_entry(kolo_queued *queued, const kolo_shard *shard, kolo_graph_entry *entry, float **gradients)
{
    bool records = entry->given && can_be_recorded(queued, shard);
    if (records || !entry->given) KOLO_TRY(queued->accelerator->finish(queued->stream));
    entry->given = true;
    if (!records) return give_microbatches(queued, shard, entry, gradients);
    if (record_entry(queued, shard, entry, gradients) == KOLO_OK) return KOLO_OK;
    kolo_queued_give_by_hand(queued);
    queued->accelerator->free_captured_graph(queued->stream, entry->captured_graph);
    entry->captured_graph = NULL;
    for (int64_t i = 0; i < shard->end_microbatch - shard->first_microbatch; i++) {
        kolo_reduction_return(queued->reduction, gradients[i]);
        gradients[i] = NULL;
    }
    return give_microbatches(queued, shard, entry, gradients);
}

static kolo_status begin_entry(kolo_queued *queued, const kolo_shard *shard, kolo_graph_entry *entry)
{
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch;
    float **gradients = calloc((size_t)microbatches + 1, sizeof *gradients);
    if (!gradients) return kolo_fail_memory((size_t)microbatches * sizeof *gradients, "gradients");
    kolo_status status = give_entry(queued, shard, entry, gradients);
    for (int64_t i = 0; i < microbatches; i++) kolo_reduction_return(queued->reduction, gradients[i]);
    free(gradients);
    return status == KOLO_OK ? keep_nodes(queued, entry) : status;
}

static kolo_graph_entry *find_entry(kolo_queued *queued, const kolo_shard *shard)
{
    for (int i = 0; i < KOLO_GRAPH_CACHE_ENTRIES; i++)
        if (serves(&queued->entries[i], queued, shard)) return &queued->entries[i];
    return NULL;
}

static kolo_status take_entry(kolo_queued *queued, const kolo_shard *shard, kolo_graph_entry **taken)
{
    kolo_graph_entry *entry = find_entry(queued, shard);
    bool recorded = entry && entry->captured_graph;
    if (!entry) KOLO_TRY(new_entry(queued, shard, &entry));
    entry->used = queued->given;
    *taken = entry;
    if (recorded) return queued->accelerator->launch(queued->stream, entry->captured_graph);
    kolo_status status = begin_entry(queued, shard, entry);
    if (status == KOLO_OK) return KOLO_OK;
    free(entry->nodes); /* it serves nobody */
    queued->accelerator->free_captured_graph(queued->stream, entry->captured_graph);
    *entry = (kolo_graph_entry){0};
    return status;
}

/* ---------------------------------------------------------------- totals */

static kolo_status send_totals(kolo_queued *queued, const kolo_shard *shard)
{
    kolo_arrival *arrival = &queued->arrivals[(queued->given - 1) % KOLO_STEPS_AHEAD];
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch;
    size_t bytes = (size_t)(microbatches + 1) * queued->totals_stride;
    arrival->first_microbatch = shard->first_microbatch;
    arrival->end_microbatch = shard->end_microbatch;
    arrival->microbatches = kolo_batch_microbatches(shard->batch);
    KOLO_TRY(queued->accelerator->copy(queued->stream, arrival->totals, queued->totals, bytes));
    arrival->comes = true;
    return queued->accelerator->record_event(queued->stream, &arrival->event);
}

/* Waits for it. A tree of totals, as the host's engine has it. */
static kolo_status open_arrival(const kolo_queued *queued, const kolo_arrival *arrival, kolo_reduction **reduction)
{
    KOLO_TRY(queued->accelerator->synchronize_event(queued->stream, arrival->event));
    KOLO_TRY(kolo_reduction_open(0, (kolo_reduction_memory){0}, reduction));
    kolo_reduction_begin(*reduction, arrival->microbatches);
    kolo_status status = KOLO_OK;
    for (int64_t l = arrival->first_microbatch; l < arrival->end_microbatch && status == KOLO_OK; l++) {
        const char *from = arrival->totals + (size_t)(l - arrival->first_microbatch) * queued->totals_stride;
        status = kolo_reduction_insert(*reduction, (kolo_node){.index = l, .totals = kolo_queued_totals(queued, from)});
    }
    return status;
}

/* Each sample's loss has the penalty in it. */
static kolo_status add_arrival(kolo_queued *queued, const kolo_arrival *arrival, kolo_totals *totals)
{
    kolo_reduction *reduction = NULL;
    kolo_status status = open_arrival(queued, arrival, &reduction);
    const extras *behind = extras_of(queued, arrival->totals, arrival->end_microbatch - arrival->first_microbatch);
    queued->penalty = 0;
    if (status == KOLO_OK) {
        if (queued->penalised) queued->penalty = behind->penalty;
        if (queued->scaling) queued->seen = behind->seen;
        kolo_totals sum = kolo_reduction_totals(reduction);
        sum.loss += sum.samples * queued->penalty;
        kolo_totals_add(totals, &sum);
    }
    kolo_reduction_close(&reduction);
    return status;
}

kolo_status kolo_queued_last_totals(kolo_queued *queued, kolo_node *nodes, int *count)
{
    kolo_reduction *reduction = NULL;
    kolo_status status = open_arrival(queued, &queued->arrivals[(queued->given - 1) % KOLO_STEPS_AHEAD], &reduction);
    if (status == KOLO_OK) *count = kolo_reduction_take(reduction, nodes);
    kolo_reduction_close(&reduction);
    return status;
}

kolo_status kolo_queued_arrive(kolo_queued *queued, bool wait, kolo_totals *totals)
{
    int64_t end = wait ? queued->given : queued->given - KOLO_STEPS_AHEAD + 1;
    totals->used = queued->program->plan.metric_sums;
    for (; queued->arrived < end; queued->arrived++) {
        kolo_arrival *arrival = &queued->arrivals[queued->arrived % KOLO_STEPS_AHEAD];
        if (!arrival->comes) continue;
        KOLO_TRY(add_arrival(queued, arrival, totals));
        arrival->comes = false;
    }
    return KOLO_OK;
}

kolo_status kolo_queued_give(kolo_queued *queued, const kolo_shard *shard, const kolo_step_parameters *numbers,
                             kolo_graph_entry **entry)
{
    KOLO_TRY(kolo_queued_prepare(queued, shard, numbers));
    KOLO_TRY(take_entry(queued, shard, entry));
    KOLO_TRY(kolo_dataset_cache_done(&queued->dataset_cache));
    return send_totals(queued, shard);
}
