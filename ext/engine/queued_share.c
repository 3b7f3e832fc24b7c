/* Leaves on an accelerator, one after the other: see queued.h. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/runtime.h"
#include "engine/queued.h"

/* ---------------------------------------------------------------- a leaf */

kolo_frame *kolo_queued_frame(const kolo_queued_job *j, int station, int64_t leaf)
{
    return j->queued->stations[station].frames[j->queued->frame_count > 1 ? leaf - j->share->first_leaf : 0];
}

/* The sum over the share's leaves is what its only one has, which writes it where it belongs. */
static void bind_sums(const kolo_station *station, kolo_frame *frame)
{
    const kolo_program *program = station->program;
    for (int s = 0; s < program->segment_count; s++) {
        int meeting = program->segments[s].meet;
        bool here = meeting >= 0 && program->plan.ops[meeting].device == station->number;
        if (here) frame->memory[program->plan.ops[meeting].in[0]] = kolo_queued_met(station, meeting);
    }
}

/* The gradients of a segment that is not at home are on their way there. */
static void bind(const kolo_queued_job *j, int64_t leaf, int number)
{
    const kolo_segment *segment = &j->queued->program->segments[number];
    kolo_station *station = &j->queued->stations[segment->device];
    kolo_blocks blocks = {.weights = &station->weights, .met = station->met};
    if (j->gradients) blocks.gradient = j->gradients[leaf - j->share->first_leaf];
    if (j->gradients && station->gradient) blocks.gradient = station->gradient;
    if (station->gradient) blocks.gradient_first = segment->gradient_first;
    kolo_frame *frame = kolo_queued_frame(j, station->number, leaf);
    kolo_frame_bind(frame, number, &station->bench, &blocks);
    if (kolo_queued_is_alone(j)) bind_sums(station, frame);
}

static kolo_status gather(const kolo_queued_job *j, int64_t leaf)
{
    kolo_queued *queued = j->queued;
    const kolo_plan *plan = &queued->program->plan;
    const kolo_frame *frame = kolo_queued_frame(j, 0, leaf);
    kolo_leaf_arrays to = {.features = kolo_frame_input(frame),
                           .labels = frame->labels,
                           .targets = frame->targets,
                           .weights = frame->weights,
                           .outputs = kolo_shape_count(plan->values[plan->output].shape)};
    KOLO_TRY(queued->accelerator->gather(queued->queue, &queued->residence.sources, queued->moment, leaf * plan->leaf,
                                         plan->leaf, &to));
    return kolo_stations_gathered(j, leaf);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static kolo_status run_op(const kolo_queued_job *j, int64_t leaf, int op, const kolo_call *call)
{
    const kolo_program *program = j->queued->program;
    if (program->plan.ops[op].kind == KOLO_OP_COPY) return kolo_stations_copy(j, leaf, op);
    return program->backend->run(program->kernels[op], call);
}

static kolo_status time_op(const kolo_queued_job *j, int64_t leaf, int op, const kolo_call *call)
{
    const kolo_accelerator *accelerator = j->queued->accelerator;
    KOLO_TRY(accelerator->finish(call->queue));
    double started = now();
    KOLO_TRY(run_op(j, leaf, op, call));
    KOLO_TRY(accelerator->finish(call->queue));
    j->seconds[op] += now() - started;
    return KOLO_OK;
}

static kolo_call call_of(const kolo_queued_job *j, int64_t leaf, const kolo_station *station)
{
    const kolo_frame *frame = kolo_queued_frame(j, station->number, leaf);
    void *totals =
        station->totals ? station->totals + (size_t)(leaf - j->share->first_leaf) * j->queued->totals_stride : NULL;
    return (kolo_call){.memory = frame->memory,
                       .scratch = station->bench.scratch,
                       .first_sample = leaf * j->queued->program->plan.leaf,
                       .labels = frame->labels,
                       .targets = frame->targets,
                       .weights = frame->weights,
                       .totals = totals,
                       .queue = station->queue,
                       .moment = station->moment};
}

static kolo_status run_segment(const kolo_queued_job *j, int64_t leaf, int number)
{
    const kolo_segment *segment = &j->queued->program->segments[number];
    kolo_call call = call_of(j, leaf, &j->queued->stations[segment->device]);
    bind(j, leaf, number);
    if (number == 0) KOLO_TRY(gather(j, leaf));
    KOLO_TRY(kolo_stations_enter(j, leaf, number));
    for (int o = segment->first; o < segment->end; o++)
        KOLO_TRY(j->seconds ? time_op(j, leaf, o, &call) : run_op(j, leaf, o, &call));
    return kolo_stations_leave(j, leaf, number);
}

/* ---------------------------------------------------------------- a share */

static kolo_status clear_totals(const kolo_queued_job *j)
{
    const kolo_station *home = &j->queued->stations[0];
    size_t bytes = (size_t)(j->share->end_leaf - j->share->first_leaf) * j->queued->totals_stride;
    return home->told ? home->accelerator->clear(home->queue, home->totals, bytes) : KOLO_OK;
}

kolo_status kolo_queued_leaves(const kolo_queued_job *j)
{
    const kolo_program *program = j->queued->program;
    KOLO_TRY(clear_totals(j));
    KOLO_TRY(kolo_stations_begin(j));
    for (int s = 0; s < program->segment_count; s++) {
        for (int64_t leaf = j->share->first_leaf; leaf < j->share->end_leaf; leaf++) KOLO_TRY(run_segment(j, leaf, s));
        if (program->segments[s].meet >= 0) KOLO_TRY(kolo_queued_meet(j, program->segments[s].meet));
    }
    return kolo_stations_end(j);
}

static kolo_status send(kolo_queued *queued, int slot)
{
    size_t bytes = queued->scaling ? sizeof *queued->moment : offsetof(kolo_moment, updates);
    return queued->accelerator->copy(queued->queue, queued->moment, &queued->moments[slot], bytes);
}

/* The moment of the share goes to the device, and its samples where they can be reached. */
static kolo_status tell(kolo_queued *queued, const kolo_share *share, const kolo_moment *numbers)
{
    int slot = (int)(queued->given % KOLO_MOMENTS);
    kolo_moment moment = numbers ? *numbers : (kolo_moment){0};
    moment.samples = share->batch->samples;
    moment.step = share->batch->step;
    moment.seed = share->seed;
    if (!numbers || !queued->scaling) moment.loss_scale = share->loss_scale != 0 ? share->loss_scale : 1;
    KOLO_TRY(kolo_residence_bring(&queued->residence, share, &moment));
    if (queued->copied[slot]) KOLO_TRY(queued->accelerator->wait_mark(queued->queue, queued->copied[slot]));
    queued->moments[slot] = moment;
    KOLO_TRY(send(queued, slot));
    queued->given++;
    return queued->accelerator->set_mark(queued->queue, &queued->copied[slot]);
}

kolo_status kolo_queued_correct(kolo_queued *queued, const kolo_moment *numbers)
{
    int slot = (int)((queued->given - 1) % KOLO_MOMENTS);
    kolo_moment *moment = &queued->moments[slot];
    KOLO_TRY(queued->accelerator->wait_mark(queued->queue, queued->copied[slot]));
    moment->scale = numbers->scale;
    moment->share = numbers->share;
    memcpy(moment->rule, numbers->rule, sizeof moment->rule);
    KOLO_TRY(send(queued, slot));
    return queued->accelerator->set_mark(queued->queue, &queued->copied[slot]);
}

kolo_status kolo_queued_prepare(kolo_queued *queued, const kolo_share *share, const kolo_moment *numbers)
{
    int64_t leaves = share->end_leaf - share->first_leaf;
    if (share->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
    KOLO_TRY(kolo_queued_reserve(queued, leaves));
    return tell(queued, share, numbers);
}

/* ---------------------------------------------------------------- computing and waiting */

kolo_totals kolo_queued_totals(const kolo_queued *queued, const char *from)
{
    kolo_totals totals = {0};
    int sums = queued->program->plan.metric_sums;
    memcpy(&totals, from, offsetof(kolo_totals, sums) + (size_t)sums * sizeof(double));
    totals.used = sums;
    return totals;
}

/* Totals of the share's leaves into the fold, and their gradients, which it takes over. */
static kolo_status hand_over(const kolo_queued_job *j, kolo_fold *fold)
{
    kolo_queued *queued = j->queued;
    int64_t leaves = j->share->end_leaf - j->share->first_leaf;
    size_t bytes = (size_t)leaves * queued->totals_stride;
    char *totals = malloc(bytes + 1);
    if (!totals) return kolo_fail_memory(bytes, "sums of losses");
    kolo_status status = queued->accelerator->copy(queued->queue, totals, queued->totals, bytes);
    if (status == KOLO_OK) status = queued->accelerator->finish(queued->queue);
    for (int64_t i = 0; i < leaves && status == KOLO_OK; i++) {
        kolo_node node = {.index = j->share->first_leaf + i,
                          .gradient = j->gradients ? j->gradients[i] : NULL,
                          .totals = kolo_queued_totals(queued, totals + (size_t)i * queued->totals_stride)};
        if (j->gradients) j->gradients[i] = NULL;
        status = kolo_fold_insert(fold, node);
    }
    free(totals);
    return status;
}

static kolo_status keep_outputs(const kolo_queued_job *j, int64_t leaf)
{
    kolo_queued *queued = j->queued;
    const kolo_share *share = j->share;
    const kolo_plan *plan = &queued->program->plan;
    size_t elements = (size_t)kolo_shape_count(plan->values[plan->output].shape);
    int64_t left = share->batch->samples - leaf * plan->leaf, count = left < plan->leaf ? left : plan->leaf;
    int station = plan->values[kolo_plan_base(plan, plan->output)].memory;
    float *target = share->outputs + (size_t)(leaf * plan->leaf) * elements;
    return queued->accelerator->copy(queued->queue, target, kolo_frame_output(kolo_queued_frame(j, station, leaf)),
                                     (size_t)count * elements * sizeof *target);
}

static kolo_status compute_part(const kolo_queued_job *j, kolo_fold *fold)
{
    int64_t leaves = j->share->end_leaf - j->share->first_leaf;
    for (int64_t i = 0; j->gradients && i < leaves; i++) KOLO_TRY(kolo_fold_borrow(fold, &j->gradients[i]));
    KOLO_TRY(kolo_queued_prepare(j->queued, j->share, NULL));
    KOLO_TRY(kolo_queued_leaves(j));
    KOLO_TRY(kolo_residence_done(&j->queued->residence));
    return fold ? hand_over(j, fold) : j->queued->accelerator->finish(j->queued->queue);
}

static kolo_status run_part(kolo_queued *queued, const kolo_share *share, kolo_fold *fold, double *seconds)
{
    int64_t leaves = share->end_leaf - share->first_leaf;
    kolo_queued_job j = {.queued = queued, .share = share, .seconds = seconds};
    if (fold && queued->program->plan.training) {
        j.gradients = calloc((size_t)leaves + 1, sizeof *j.gradients);
        if (!j.gradients) return kolo_fail_memory((size_t)leaves * sizeof *j.gradients, "gradients");
    }
    kolo_status status = compute_part(&j, fold);
    for (int64_t i = 0; j.gradients && i < leaves; i++) kolo_fold_return(fold, j.gradients[i]);
    free(j.gradients);
    return status;
}

/* ---------------------------------------------------------------- leaves of which only sums are wanted */

/* One leaf, whose sums go to `totals` of the host when the queue has come so far. */
static kolo_status give_leaf(kolo_queued *queued, const kolo_share *share, int64_t leaf, char *totals)
{
    kolo_share part = *share;
    part.first_leaf = leaf;
    part.end_leaf = leaf + 1;
    kolo_queued_job j = {.queued = queued, .share = &part};
    KOLO_TRY(kolo_queued_prepare(queued, &part, NULL));
    KOLO_TRY(kolo_queued_leaves(&j));
    KOLO_TRY(kolo_residence_done(&queued->residence));
    if (part.outputs) KOLO_TRY(keep_outputs(&j, leaf));
    return queued->accelerator->copy(queued->queue, totals, queued->totals, queued->totals_stride);
}

static kolo_status score(kolo_queued *queued, const kolo_share *share, kolo_fold *fold, char *totals)
{
    for (int64_t leaf = share->first_leaf; leaf < share->end_leaf; leaf++)
        KOLO_TRY(give_leaf(queued, share, leaf, totals + (size_t)(leaf - share->first_leaf) * queued->totals_stride));
    KOLO_TRY(queued->accelerator->finish(queued->queue));
    for (int64_t leaf = share->first_leaf; fold && leaf < share->end_leaf; leaf++) {
        const char *from = totals + (size_t)(leaf - share->first_leaf) * queued->totals_stride;
        KOLO_TRY(kolo_fold_insert(fold, (kolo_node){.index = leaf, .totals = kolo_queued_totals(queued, from)}));
    }
    return KOLO_OK;
}

static kolo_status run_scores(kolo_queued *queued, const kolo_share *share, kolo_fold *fold)
{
    size_t bytes = (size_t)(share->end_leaf - share->first_leaf) * queued->totals_stride;
    void *totals = NULL;
    KOLO_TRY(queued->accelerator->allocate_host(queued->queue, bytes, &totals));
    kolo_status status = score(queued, share, fold, totals);
    queued->accelerator->release_host(queued->queue, totals);
    return status;
}

/* Leaves that do not meet are computed one at a time, so that memory is one leaf's. */
kolo_status kolo_queued_run(kolo_queued *queued, const kolo_share *share, kolo_fold *fold, double *seconds)
{
    if (queued->program->meets) return run_part(queued, share, fold, seconds);
    if (!queued->program->plan.training) return run_scores(queued, share, fold);
    for (int64_t leaf = share->first_leaf; leaf < share->end_leaf; leaf++) {
        kolo_share part = *share;
        part.first_leaf = leaf;
        part.end_leaf = leaf + 1;
        KOLO_TRY(run_part(queued, &part, fold, seconds));
    }
    return KOLO_OK;
}
