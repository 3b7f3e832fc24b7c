/* Leaves through segments: see pipeline.h. The sums that they meet with are in meeting.c. */
#include "engine/pipeline.h"

#include <pthread.h>
#include <stdlib.h>

#include "engine/leaf.h"
#include "engine/meeting.h"
#include "core/runtime.h"
#include "engine/segment_sums.h"

/* A place for one leaf on its way. Those that wait for the same segment are in a list. */
typedef struct slot {
    kolo_leaf leaf;
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
    kolo_segment_sums sums; /* where leaves meet */

    /* Of the run at hand: */
    const kolo_share *share;
    kolo_fold *fold;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t next_leaf, ended; /* leaves that began, and how many have ended */
    int gate; /* the segment whose meeting is next; segment_count: none is left */
    int64_t arrived; /* leaves that are there */
    bool meets; /* somebody adds up what they brought */
    kolo_status status;
};

/* ---------------------------------------------------------------- open and close */

static void close_slots(kolo_pipeline *pipeline)
{
    for (int i = 0; i < pipeline->slot_count; i++) kolo_frame_close(&pipeline->slots[i].leaf.frame);
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
    return engine->program->meets ? kolo_segment_sums_open(engine->program, &made->sums) : KOLO_OK;
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

/* Where leaves meet, all of them are on their way at once. Else one for each thread, and one that waits for each
 * device.
 */
static int slots_wanted(const kolo_pipeline *pipeline)
{
    int64_t leaves = pipeline->share->end_leaf - pipeline->share->first_leaf;
    int64_t most = (int64_t)kolo_team_size(pipeline->engine->team) + pipeline->engine->program->devices;
    return (int)(pipeline->engine->program->meets || leaves < most ? leaves : most);
}

static kolo_status open_slots(kolo_pipeline *pipeline)
{
    int wanted = slots_wanted(pipeline);
    if (wanted <= pipeline->slot_count) return KOLO_OK;
    size_t bytes = (size_t)wanted * sizeof *pipeline->slots;
    slot *grown = realloc(pipeline->slots, bytes);
    if (!grown) return kolo_fail_memory(bytes, "the leaves of a batch");
    pipeline->slots = grown;
    while (pipeline->slot_count < wanted) {
        slot *added = &grown[pipeline->slot_count];
        *added = (slot){.next = -1};
        KOLO_TRY(kolo_frame_open(pipeline->engine->program, &added->leaf.frame));
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

/* In the order of the leaves, or backwards; a tree of sums would otherwise be left with too many ends. */
static bool goes_before(const slot *a, const slot *b, bool backwards)
{
    return backwards ? a->leaf.number > b->leaf.number : a->leaf.number < b->leaf.number;
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

/* A new leaf, if there is one and a place for it. */
static int take_new(kolo_pipeline *pipeline)
{
    int segments = pipeline->engine->program->segment_count, free_slot = pipeline->waiting[segments];
    if (free_slot < 0 || pipeline->next_leaf == pipeline->share->end_leaf) return -1;
    pipeline->waiting[segments] = pipeline->slots[free_slot].next;
    pipeline->slots[free_slot].leaf.number = pipeline->next_leaf++;
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
    while (segment < program->segment_count && program->segments[segment].meet < 0) segment++;
    pipeline->gate = segment;
    pipeline->arrived = 0;
}

/* ---------------------------------------------------------------- a thread at work */

static bool all_done(const kolo_pipeline *pipeline)
{
    int64_t leaves = pipeline->share->end_leaf - pipeline->share->first_leaf;
    bool met = pipeline->gate == pipeline->engine->program->segment_count;
    return pipeline->status != KOLO_OK || (met && pipeline->ended == leaves);
}

/* Whether this thread is to add up what the leaves brought. Only member 0, the replica's own thread, speaks to others.
 */
static bool meeting_is_due(const kolo_pipeline *pipeline, int thread)
{
    const kolo_program *program = pipeline->engine->program;
    int64_t leaves = pipeline->share->end_leaf - pipeline->share->first_leaf;
    if (pipeline->gate == program->segment_count || pipeline->meets || pipeline->arrived < leaves) return false;
    return thread == 0 || !program->plan.ops[program->segments[pipeline->gate].meet].across;
}

static const double *brought(void *argument, int64_t leaf)
{
    const kolo_pipeline *pipeline = argument;
    const kolo_program *program = pipeline->engine->program;
    int partial = program->plan.ops[program->segments[pipeline->gate].meet].in[0];
    const kolo_frame *frame = pipeline->slots[leaf - pipeline->share->first_leaf].leaf.frame;
    return (const double *)((const char *)frame->block + program->plan.values[partial].offset);
}

/* With the lock, which is given back meanwhile. */
static kolo_status meet(kolo_pipeline *pipeline)
{
    const kolo_program *program = pipeline->engine->program;
    const kolo_op *op = &program->plan.ops[program->segments[pipeline->gate].meet];
    const kolo_value *met = &program->plan.values[op->out[0]];
    pipeline->meets = true;
    pthread_mutex_unlock(&pipeline->lock);
    double *sum = (double *)((char *)pipeline->engine->met + met->offset);
    kolo_status status = kolo_meeting_sum(&pipeline->meeting, pipeline->share, op->across,
                                          (kolo_brought){brought, pipeline}, kolo_shape_count(met->shape), sum);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->meets = false;
    find_gate(pipeline, pipeline->gate + 1);
    return status;
}

/* Whether the gradients of a segment are added up by themselves. */
static bool sums_apart(const kolo_pipeline *pipeline)
{
    return pipeline->sums.folds && pipeline->fold;
}

static kolo_status run_leaf(kolo_pipeline *pipeline, kolo_leaf *leaf, int segment, const kolo_bench *bench)
{
    kolo_engine *engine = pipeline->engine;
    const kolo_share *share = pipeline->share;
    bool apart = sums_apart(pipeline), last = segment == engine->program->segment_count - 1;
    if (segment == 0)
        KOLO_TRY(kolo_leaf_begin(leaf, engine, share, apart ? NULL : pipeline->fold, leaf->number, bench));
    if (apart) KOLO_TRY(kolo_segment_sums_borrow(&pipeline->sums, segment, &leaf->node.gradient));
    leaf->gradient_first = apart ? engine->program->segments[segment].gradient_first : 0;
    kolo_status status = kolo_leaf_run(leaf, engine, share, segment, bench);
    if (apart) {
        float *gradient = leaf->node.gradient;
        leaf->node.gradient = NULL;
        if (status != KOLO_OK) kolo_segment_sums_return(&pipeline->sums, segment, gradient);
        else status = kolo_segment_sums_insert(&pipeline->sums, segment, leaf->number, gradient);
    }
    if (status != KOLO_OK || !last) return status;
    return kolo_leaf_end(leaf, share, apart ? pipeline->sums.totals : pipeline->fold);
}

/* Without the lock. */
static kolo_status run_segment(kolo_pipeline *pipeline, int thread, slot *taken, int segment)
{
    kolo_gate_enter(pipeline->engine->gate);
    kolo_status status = run_leaf(pipeline, &taken->leaf, segment, &pipeline->engine->benches[thread]);
    kolo_gate_leave(pipeline->engine->gate);
    return status;
}

/* A leaf has been through a segment. */
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
        *status = meet(pipeline);
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
        if (pipeline->share->stoppable && kolo_stop_requested()) status = KOLO_INTERRUPTED;
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

kolo_status kolo_pipeline_run(kolo_pipeline *pipeline, const kolo_share *share, kolo_fold *fold)
{
    int segments = pipeline->engine->program->segment_count;
    pipeline->share = share;
    pipeline->fold = fold;
    pipeline->next_leaf = share->first_leaf;
    pipeline->ended = 0;
    pipeline->status = KOLO_OK;
    KOLO_TRY(open_slots(pipeline));
    for (int s = 0; s <= segments; s++) pipeline->waiting[s] = -1;
    for (int i = pipeline->slot_count - 1; i >= 0; i--) release(pipeline, i); /* slot 0 is the first to be taken */
    find_gate(pipeline, 0);
    if (sums_apart(pipeline)) kolo_segment_sums_begin(&pipeline->sums, kolo_batch_leaves(share->batch));
    kolo_status status = kolo_team_run(pipeline->engine->team, work_through, pipeline);
    for (int i = 0; i < pipeline->slot_count; i++) {
        if (pipeline->slots[i].busy) kolo_leaf_drop(&pipeline->slots[i].leaf, fold);
        pipeline->slots[i].busy = false;
    }
    return status == KOLO_OK && sums_apart(pipeline) ? kolo_segment_sums_finish(&pipeline->sums, fold) : status;
}
