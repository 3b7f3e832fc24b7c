/* Shares that are recorded and replayed, and their totals, which are read later: see queued.h. */
#include <stdlib.h>
#include <string.h>
#include "engine/queued.h"

/* ---------------------------------------------------------------- recordings */

static bool serves(const kolo_turn *turn, const kolo_queued *queued, const kolo_share *share)
{
    return turn->nodes && turn->first_leaf == share->first_leaf && turn->end_leaf == share->end_leaf &&
           turn->leaves == kolo_batch_leaves(share->batch) && turn->ordered == queued->residence.ordered &&
           turn->stage == queued->residence.stage && turn->version == queued->residence.version &&
           turn->memory == queued->memory;
}

static kolo_status new_turn(kolo_queued *queued, const kolo_share *share, kolo_turn **turn)
{
    kolo_turn *oldest = &queued->turns[0];
    for (int i = 1; i < KOLO_TURNS; i++)
        if (queued->turns[i].used < oldest->used) oldest = &queued->turns[i];
    queued->accelerator->free_recording(queued->queue, oldest->recording);
    queued->accelerator->free_recording(queued->queue, oldest->after);
    oldest->recording = oldest->after = NULL;
    oldest->given = false;
    if (!oldest->nodes) oldest->nodes = calloc(KOLO_FOLD_MOST, sizeof *oldest->nodes);
    if (!oldest->nodes) return kolo_fail_memory(KOLO_FOLD_MOST * sizeof *oldest->nodes, "a recording");
    oldest->first_leaf = share->first_leaf;
    oldest->end_leaf = share->end_leaf;
    oldest->leaves = kolo_batch_leaves(share->batch);
    oldest->ordered = queued->residence.ordered;
    oldest->stage = queued->residence.stage;
    oldest->version = queued->residence.version;
    oldest->memory = queued->memory;
    oldest->node_count = 0;
    *turn = oldest;
    return KOLO_OK;
}

/* What stands behind the totals of a share's leaves. */
typedef struct extras {
    double penalty;
    kolo_scaling seen;
} extras;
_Static_assert(sizeof(extras) <= 64, "totals_stride is at least that");

static extras *extras_of(const kolo_queued *queued, char *totals, int64_t leaves)
{
    void *behind = totals + (size_t)leaves * queued->totals_stride;
    return behind;
}

/* The share, and its sums up the tree. Their memory is the fold's again, but nobody takes it before they are read:
 * what follows in the queue does. */
static kolo_status give_leaves(kolo_queued *queued, const kolo_share *share, kolo_turn *turn, float **gradients)
{
    kolo_queued_job j = {.queued = queued, .share = share, .gradients = gradients};
    int64_t leaves = share->end_leaf - share->first_leaf;
    kolo_fold_begin(queued->fold, turn->leaves);
    for (int64_t i = 0; i < leaves; i++) KOLO_TRY(kolo_fold_borrow(queued->fold, &gradients[i]));
    extras *behind = extras_of(queued, queued->totals, leaves);
    const kolo_accelerator *accelerator = queued->accelerator;
    if (queued->scaling)
        KOLO_TRY(accelerator->fill_moment(queued->queue, queued->moment, queued->scaling, &behind->seen));
    KOLO_TRY(kolo_queued_leaves(&j));
    if (queued->penalised) KOLO_TRY(accelerator->penalty(queued->queue, queued->penalised, &behind->penalty));
    for (int64_t i = 0; i < leaves; i++) {
        kolo_node node = {.index = share->first_leaf + i, .gradient = gradients[i]};
        gradients[i] = NULL;
        KOLO_TRY(kolo_fold_insert(queued->fold, node));
    }
    return KOLO_OK;
}

static kolo_status keep_nodes(kolo_queued *queued, kolo_turn *turn)
{
    kolo_node *nodes = calloc(KOLO_FOLD_MOST, sizeof *nodes);
    if (!nodes) return kolo_fail_memory(KOLO_FOLD_MOST * sizeof *nodes, "a recording");
    turn->node_count = kolo_fold_take(queued->fold, nodes);
    for (int i = 0; i < turn->node_count; i++) {
        turn->nodes[i] = (kolo_queued_node){nodes[i].level, nodes[i].index, nodes[i].gradient};
        kolo_fold_return(queued->fold, nodes[i].gradient);
    }
    free(nodes);
    return KOLO_OK;
}

/* A recording would show a profiler its layers once, and not at every step. */
static bool can_be_recorded(const kolo_queued *queued, const kolo_share *share)
{
    const kolo_program *program = queued->program;
    const char *ranges = getenv("KOLO_NVTX");
    if (ranges && strcmp(ranges, "1") == 0) return false;
    if (queued->by_hand) return false;
    kolo_queued_job j = {.queued = (kolo_queued *)(uintptr_t)queued, .share = share};
    for (int s = 0; s < program->segment_count; s++)
        if (program->segments[s].meet >= 0 && kolo_queued_asks_others(&j, program->segments[s].meet)) return false;
    return true;
}

void kolo_queued_give_by_hand(kolo_queued *queued)
{
    kolo_failure failure = kolo_failure_take();
    kolo_warn("steps are given to the device one operation at a time, since they cannot be recorded: %s", failure.text);
    queued->by_hand = true;
}

static kolo_status record_turn(kolo_queued *queued, const kolo_share *share, kolo_turn *turn, float **gradients)
{
    const kolo_accelerator *accelerator = queued->accelerator;
    KOLO_TRY(accelerator->record(queued->queue));
    kolo_status status = give_leaves(queued, share, turn, gradients);
    kolo_status ended = accelerator->recorded(queued->queue, &turn->recording);
    KOLO_TRY(status);
    KOLO_TRY(ended);
    return accelerator->replay(queued->queue, turn->recording);
}

/* What is done for the first time, or recorded, is done while the device is idle: the driver may wait for that as it
 * loads kernels, and hold up the thread meanwhile for whose device this one's would wait. Where a recording fails
 * nothing of it was done. */
static kolo_status give_turn(kolo_queued *queued, const kolo_share *share, kolo_turn *turn, float **gradients)
{
    bool records = turn->given && can_be_recorded(queued, share);
    if (records || !turn->given) KOLO_TRY(queued->accelerator->finish(queued->queue));
    turn->given = true;
    if (!records) return give_leaves(queued, share, turn, gradients);
    if (record_turn(queued, share, turn, gradients) == KOLO_OK) return KOLO_OK;
    kolo_queued_give_by_hand(queued);
    queued->accelerator->free_recording(queued->queue, turn->recording);
    turn->recording = NULL;
    for (int64_t i = 0; i < share->end_leaf - share->first_leaf; i++) {
        kolo_fold_return(queued->fold, gradients[i]);
        gradients[i] = NULL;
    }
    return give_leaves(queued, share, turn, gradients);
}

static kolo_status begin_turn(kolo_queued *queued, const kolo_share *share, kolo_turn *turn)
{
    int64_t leaves = share->end_leaf - share->first_leaf;
    float **gradients = calloc((size_t)leaves + 1, sizeof *gradients);
    if (!gradients) return kolo_fail_memory((size_t)leaves * sizeof *gradients, "gradients");
    kolo_status status = give_turn(queued, share, turn, gradients);
    for (int64_t i = 0; i < leaves; i++) kolo_fold_return(queued->fold, gradients[i]);
    free(gradients);
    return status == KOLO_OK ? keep_nodes(queued, turn) : status;
}

static kolo_turn *find_turn(kolo_queued *queued, const kolo_share *share)
{
    for (int i = 0; i < KOLO_TURNS; i++)
        if (serves(&queued->turns[i], queued, share)) return &queued->turns[i];
    return NULL;
}

static kolo_status take_turn(kolo_queued *queued, const kolo_share *share, kolo_turn **taken)
{
    kolo_turn *turn = find_turn(queued, share);
    bool recorded = turn && turn->recording;
    if (!turn) KOLO_TRY(new_turn(queued, share, &turn));
    turn->used = queued->given;
    *taken = turn;
    if (recorded) return queued->accelerator->replay(queued->queue, turn->recording);
    kolo_status status = begin_turn(queued, share, turn);
    if (status == KOLO_OK) return KOLO_OK;
    free(turn->nodes); /* it serves nobody */
    queued->accelerator->free_recording(queued->queue, turn->recording);
    *turn = (kolo_turn){0};
    return status;
}

/* ---------------------------------------------------------------- totals */

static kolo_status send_totals(kolo_queued *queued, const kolo_share *share)
{
    kolo_arrival *arrival = &queued->arrivals[(queued->given - 1) % KOLO_MOMENTS];
    int64_t leaves = share->end_leaf - share->first_leaf;
    size_t bytes = (size_t)(leaves + 1) * queued->totals_stride;
    arrival->first_leaf = share->first_leaf;
    arrival->end_leaf = share->end_leaf;
    arrival->leaves = kolo_batch_leaves(share->batch);
    KOLO_TRY(queued->accelerator->copy(queued->queue, arrival->totals, queued->totals, bytes));
    arrival->comes = true;
    return queued->accelerator->set_mark(queued->queue, &arrival->mark);
}

/* Waits for it. A tree of totals, as the host's engine has it. */
static kolo_status open_arrival(const kolo_queued *queued, const kolo_arrival *arrival, kolo_fold **fold)
{
    KOLO_TRY(queued->accelerator->wait_mark(queued->queue, arrival->mark));
    KOLO_TRY(kolo_fold_open(0, (kolo_fold_memory){0}, fold));
    kolo_fold_begin(*fold, arrival->leaves);
    kolo_status status = KOLO_OK;
    for (int64_t l = arrival->first_leaf; l < arrival->end_leaf && status == KOLO_OK; l++) {
        const char *from = arrival->totals + (size_t)(l - arrival->first_leaf) * queued->totals_stride;
        status = kolo_fold_insert(*fold, (kolo_node){.index = l, .totals = kolo_queued_totals(queued, from)});
    }
    return status;
}

/* Each sample's loss has the penalty in it. */
static kolo_status add_arrival(kolo_queued *queued, const kolo_arrival *arrival, kolo_totals *totals)
{
    kolo_fold *fold = NULL;
    kolo_status status = open_arrival(queued, arrival, &fold);
    const extras *behind = extras_of(queued, arrival->totals, arrival->end_leaf - arrival->first_leaf);
    queued->penalty = 0;
    if (status == KOLO_OK) {
        if (queued->penalised) queued->penalty = behind->penalty;
        if (queued->scaling) queued->seen = behind->seen;
        kolo_totals sum = kolo_fold_totals(fold);
        sum.loss += sum.samples * queued->penalty;
        kolo_totals_add(totals, &sum);
    }
    kolo_fold_close(&fold);
    return status;
}

kolo_status kolo_queued_last_totals(kolo_queued *queued, kolo_node *nodes, int *count)
{
    kolo_fold *fold = NULL;
    kolo_status status = open_arrival(queued, &queued->arrivals[(queued->given - 1) % KOLO_MOMENTS], &fold);
    if (status == KOLO_OK) *count = kolo_fold_take(fold, nodes);
    kolo_fold_close(&fold);
    return status;
}

kolo_status kolo_queued_arrive(kolo_queued *queued, bool wait, kolo_totals *totals)
{
    int64_t end = wait ? queued->given : queued->given - KOLO_MOMENTS + 1;
    totals->used = queued->program->plan.metric_sums;
    for (; queued->arrived < end; queued->arrived++) {
        kolo_arrival *arrival = &queued->arrivals[queued->arrived % KOLO_MOMENTS];
        if (!arrival->comes) continue;
        KOLO_TRY(add_arrival(queued, arrival, totals));
        arrival->comes = false;
    }
    return KOLO_OK;
}

kolo_status kolo_queued_give(kolo_queued *queued, const kolo_share *share, const kolo_moment *numbers, kolo_turn **turn)
{
    KOLO_TRY(kolo_queued_prepare(queued, share, numbers));
    KOLO_TRY(take_turn(queued, share, turn));
    KOLO_TRY(kolo_residence_done(&queued->residence));
    return send_totals(queued, share);
}
