/* Microbatches through segments: see pipeline.h. The sums that they meet with are in meeting.c. */
#include "engine/pipeline.h"

#include <pthread.h>
#include <stdlib.h>

#include "engine/microbatch.h"
#include "engine/meeting.h"
#include "runtime/runtime.h"
#include "engine/segment_sums.h"

/* A place for one microbatch on its way. Those that wait for the same segment are in a list. */
typedef struct slot {
    kolo_microbatch microbatch;
    int thread; /* that ran it last */
    int next;   /* in its list; -1: the last */
    bool busy;
} slot;

struct kolo_pipeline {
    kolo_engine *engine;
    slot *slots;
    int slot_count;
    int *waiting; /* [segments + 1]: the first slot that waits for the segment, or -1; at the end those that are free */
    kolo_meeting meeting;
    kolo_segment_sums sums; /* where microbatches meet */

    /* Of the run at hand: */
    const kolo_shard *shard;
    kolo_reduction *reduction;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t next_microbatch, ended; /* microbatches that began, and how many have ended */
    int gate; /* the segment whose meeting is next; segment_count: none is left */
    int64_t arrived; /* microbatches that are there */
    bool reduces; /* somebody adds up what they brought */
    kolo_status status;
};

/* ---------------------------------------------------------------- open and close */

static void close_slots(kolo_pipeline *pipeline)
{
    for (int i = 0; i < pipeline->slot_count; i++) kolo_activations_close(&pipeline->slots[i].microbatch.activations);
    free(pipeline->slots);
    pipeline->slots = NULL;
    pipeline->slot_count = 0;
}

kolo_status kolo_pipeline_open(kolo_engine *engine, kolo_pipeline **pipeline)
{
    int segments = engine->program->segment_count;
    kolo_pipeline *made = calloc(1, sizeof *made);
    int *waiting = malloc((size_t)(segments + 1) * sizeof *waiting);
    if (!made || !waiting) {
        free(made);
        free(waiting);
        return kolo_fail_memory(sizeof *made, "an engine");
    }
    made->engine = engine;
    made->waiting = waiting;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    *pipeline = made;
    return engine->program->reduces ? kolo_segment_sums_open(engine->program, &made->sums) : KOLO_OK;
}

void kolo_pipeline_close(kolo_pipeline **pipeline)
{
    kolo_pipeline *closed = *pipeline;
    *pipeline = NULL;
    if (!closed) return;
    close_slots(closed);
    kolo_meeting_close(&closed->meeting);
    kolo_segment_sums_close(&closed->sums);
    pthread_mutex_destroy(&closed->lock);
    pthread_cond_destroy(&closed->changed);
    free(closed->waiting);
    free(closed);
}

/* Where microbatches meet, all of them are on their way at once. Else one for each thread, and one that waits for each
 * device.
 */
static int slots_wanted(const kolo_pipeline *pipeline)
{
    int64_t microbatches = pipeline->shard->end_microbatch - pipeline->shard->first_microbatch;
    int64_t most = (int64_t)kolo_team_size(pipeline->engine->team) + pipeline->engine->program->devices;
    return (int)(pipeline->engine->program->reduces || microbatches < most ? microbatches : most);
}

static kolo_status open_slots(kolo_pipeline *pipeline)
{
    int wanted = slots_wanted(pipeline);
    if (wanted <= pipeline->slot_count) return KOLO_OK;
    size_t bytes = (size_t)wanted * sizeof *pipeline->slots;
    slot *grown = realloc(pipeline->slots, bytes);
    if (!grown) return kolo_fail_memory(bytes, "the microbatches of a batch");
    pipeline->slots = grown;
    while (pipeline->slot_count < wanted) {
        slot *added = &grown[pipeline->slot_count];
        *added = (slot){.next = -1};
        KOLO_TRY(kolo_activations_open(pipeline->engine->program, &added->microbatch.activations));
        pipeline->slot_count++;
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- who waits for what */

static void release(kolo_pipeline *pipeline, int number)
{
    int *first = &pipeline->waiting[pipeline->engine->program->segment_count];
    pipeline->slots[number].next = *first;
    *first = number;
}

/* In the order of the microbatches, or backwards; a tree of sums would otherwise be left with too many ends. */
static bool goes_before(const slot *a, const slot *b, bool backwards)
{
    return backwards ? a->microbatch.number > b->microbatch.number : a->microbatch.number < b->microbatch.number;
}

static void put(kolo_pipeline *pipeline, int segment, int number)
{
    slot *slots = pipeline->slots;
    int *link = &pipeline->waiting[segment];
    bool backwards = pipeline->engine->program->segments[segment].backwards;
    while (*link >= 0 && goes_before(&slots[*link], &slots[number], backwards)) link = &slots[*link].next;
    slots[number].next = *link;
    *link = number;
}

/* The first, or one of the next few that this thread ran last: what it wrote may be in its core's own cache. */
static int take(kolo_pipeline *pipeline, int segment, int thread)
{
    slot *slots = pipeline->slots;
    int *link = &pipeline->waiting[segment], near = kolo_team_size(pipeline->engine->team);
    for (int *own = link; *own >= 0 && near > 0; own = &slots[*own].next, near--) {
        if (slots[*own].thread != thread) continue;
        link = own;
        break;
    }
    int taken = *link;
    if (taken >= 0) *link = slots[taken].next;
    return taken;
}

/* A new microbatch, if there is one and a place for it. */
static int take_new(kolo_pipeline *pipeline)
{
    int segments = pipeline->engine->program->segment_count, free_slot = pipeline->waiting[segments];
    if (free_slot < 0 || pipeline->next_microbatch == pipeline->shard->end_microbatch) return -1;
    pipeline->waiting[segments] = pipeline->slots[free_slot].next;
    pipeline->slots[free_slot].microbatch.number = pipeline->next_microbatch++;
    pipeline->slots[free_slot].busy = true;
    return free_slot;
}

/* What this thread does next: the segment that is furthest on, of those of its device that are not behind a meeting. */
static int pick(kolo_pipeline *pipeline, int thread, int *segment)
{
    const kolo_program *program = pipeline->engine->program;
    int device = thread % program->devices, taken = -1;
    int s = pipeline->gate < program->segment_count ? pipeline->gate : program->segment_count - 1;
    for (; s >= 0 && taken < 0; s--) {
        if (program->segments[s].device != device) continue;
        *segment = s;
        taken = s > 0 ? take(pipeline, s, thread) : take_new(pipeline);
    }
    return taken;
}

static void find_gate(kolo_pipeline *pipeline, int segment)
{
    const kolo_program *program = pipeline->engine->program;
    while (segment < program->segment_count && program->segments[segment].reduce < 0) segment++;
    pipeline->gate = segment;
    pipeline->arrived = 0;
}

/* ---------------------------------------------------------------- a thread at work */

static bool all_done(const kolo_pipeline *pipeline)
{
    int64_t microbatches = pipeline->shard->end_microbatch - pipeline->shard->first_microbatch;
    bool reduced = pipeline->gate == pipeline->engine->program->segment_count;
    return pipeline->status != KOLO_OK || (reduced && pipeline->ended == microbatches);
}

/* Whether this thread is to add up what the microbatches brought. Only member 0, the replica's own thread, speaks to
 * others.
 */
static bool meeting_is_due(const kolo_pipeline *pipeline, int thread)
{
    const kolo_program *program = pipeline->engine->program;
    int64_t microbatches = pipeline->shard->end_microbatch - pipeline->shard->first_microbatch;
    if (pipeline->gate == program->segment_count || pipeline->reduces || pipeline->arrived < microbatches) return false;
    return thread == 0 || !program->plan.ops[program->segments[pipeline->gate].reduce].across;
}

static const double *brought(void *argument, int64_t microbatch)
{
    const kolo_pipeline *pipeline = argument;
    const kolo_program *program = pipeline->engine->program;
    int partial = program->plan.ops[program->segments[pipeline->gate].reduce].in[0];
    const kolo_activations *activations =
        pipeline->slots[microbatch - pipeline->shard->first_microbatch].microbatch.activations;
    return (const double *)((const char *)activations->block + program->plan.values[partial].offset);
}

/* With the lock, which is given back meanwhile. */
static kolo_status reduce(kolo_pipeline *pipeline)
{
    const kolo_program *program = pipeline->engine->program;
    const kolo_op *op = &program->plan.ops[program->segments[pipeline->gate].reduce];
    const kolo_value *reduced = &program->plan.values[op->out[0]];
    pipeline->reduces = true;
    pthread_mutex_unlock(&pipeline->lock);
    double *sum = (double *)((char *)pipeline->engine->reduced + reduced->offset);
    kolo_status status = kolo_meeting_sum(&pipeline->meeting, pipeline->shard, op->across,
                                          (kolo_brought){brought, pipeline}, kolo_shape_count(reduced->shape), sum);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->reduces = false;
    find_gate(pipeline, pipeline->gate + 1);
    return status;
}

/* Whether the gradients of a segment are added up by themselves. */
static bool sums_apart(const kolo_pipeline *pipeline)
{
    return pipeline->sums.reductions && pipeline->reduction;
}

static kolo_status run_microbatch(kolo_pipeline *pipeline, kolo_microbatch *microbatch, int segment,
                                  const kolo_workspace *workspace)
{
    kolo_engine *engine = pipeline->engine;
    const kolo_shard *shard = pipeline->shard;
    bool apart = sums_apart(pipeline), last = segment == engine->program->segment_count - 1;
    if (segment == 0)
        KOLO_TRY(kolo_microbatch_begin(microbatch, engine, shard, apart ? NULL : pipeline->reduction,
                                       microbatch->number, workspace));
    if (apart) KOLO_TRY(kolo_segment_sums_borrow(&pipeline->sums, segment, &microbatch->node.gradient));
    microbatch->gradient_first = apart ? engine->program->segments[segment].gradient_first : 0;
    kolo_status status = kolo_microbatch_run(microbatch, engine, shard, segment, workspace);
    if (apart) {
        float *gradient = microbatch->node.gradient;
        microbatch->node.gradient = NULL;
        if (status != KOLO_OK) kolo_segment_sums_return(&pipeline->sums, segment, gradient);
        else status = kolo_segment_sums_insert(&pipeline->sums, segment, microbatch->number, gradient);
    }
    if (status != KOLO_OK || !last) return status;
    return kolo_microbatch_end(microbatch, shard, apart ? pipeline->sums.totals : pipeline->reduction);
}

/* Without the lock. */
static kolo_status run_segment(kolo_pipeline *pipeline, int thread, slot *taken, int segment)
{
    kolo_gate_enter(pipeline->engine->gate);
    kolo_status status = run_microbatch(pipeline, &taken->microbatch, segment, &pipeline->engine->workspaces[thread]);
    kolo_gate_leave(pipeline->engine->gate);
    return status;
}

/* A microbatch has been through a segment. */
static void pass_on(kolo_pipeline *pipeline, int number, int segment)
{
    bool last = segment == pipeline->engine->program->segment_count - 1;
    pipeline->arrived += segment == pipeline->gate;
    pipeline->ended += last;
    if (last) pipeline->slots[number].busy = false;
    if (last) release(pipeline, number);
    else put(pipeline, segment + 1, number);
}

/* With the lock. False: nothing to do for now. */
static bool work_once(kolo_pipeline *pipeline, int thread, kolo_status *status)
{
    int segment = 0;
    if (meeting_is_due(pipeline, thread)) {
        *status = reduce(pipeline);
        return true;
    }
    int number = pick(pipeline, thread, &segment);
    if (number < 0) return false;
    pthread_mutex_unlock(&pipeline->lock);
    slot *taken = &pipeline->slots[number];
    taken->thread = thread;
    *status = run_segment(pipeline, thread, taken, segment);
    pthread_mutex_lock(&pipeline->lock);
    if (*status == KOLO_OK) pass_on(pipeline, number, segment);
    return true;
}

static kolo_status work(kolo_pipeline *pipeline, int thread)
{
    kolo_status status = KOLO_OK;
    pthread_mutex_lock(&pipeline->lock);
    while (!all_done(pipeline)) {
        if (pipeline->shard->stoppable && kolo_stop_requested()) status = KOLO_INTERRUPTED;
        else if (!work_once(pipeline, thread, &status)) {
            pthread_cond_wait(&pipeline->changed, &pipeline->lock);
            continue;
        }
        if (status != KOLO_OK && pipeline->status == KOLO_OK) pipeline->status = status;
        pthread_cond_broadcast(&pipeline->changed);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return status;
}

static kolo_status work_through(void *argument, int member)
{
    kolo_pipeline *pipeline = argument;
    const kolo_backend *backend = pipeline->engine->program->backend;
    int entered = backend->enter_thread();
    kolo_status status = work(pipeline, member);
    backend->leave_thread(entered);
    return status;
}

/* ---------------------------------------------------------------- a run */

kolo_status kolo_pipeline_run(kolo_pipeline *pipeline, const kolo_shard *shard, kolo_reduction *reduction)
{
    int segments = pipeline->engine->program->segment_count;
    pipeline->shard = shard;
    pipeline->reduction = reduction;
    pipeline->next_microbatch = shard->first_microbatch;
    pipeline->ended = 0;
    pipeline->status = KOLO_OK;
    KOLO_TRY(open_slots(pipeline));
    for (int s = 0; s <= segments; s++) pipeline->waiting[s] = -1;
    for (int i = pipeline->slot_count - 1; i >= 0; i--) release(pipeline, i); /* slot 0 is the first to be taken */
    find_gate(pipeline, 0);
    if (sums_apart(pipeline)) kolo_segment_sums_begin(&pipeline->sums, kolo_batch_microbatches(shard->batch));
    kolo_status status = kolo_team_run(pipeline->engine->team, work_through, pipeline);
    for (int i = 0; i < pipeline->slot_count; i++) {
        if (pipeline->slots[i].busy) kolo_microbatch_drop(&pipeline->slots[i].microbatch, reduction);
        pipeline->slots[i].busy = false;
    }
    return status == KOLO_OK && sums_apart(pipeline) ? kolo_segment_sums_finish(&pipeline->sums, reduction) : status;
}
