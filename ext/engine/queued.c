/* Leaves on an accelerator: see queued.h. */
#include "engine/queued.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/runtime.h"

/* ---------------------------------------------------------------- open and close */

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static kolo_status allocate(kolo_queued *queued, size_t bytes, const char *what, void *memory)
{
    return queued->accelerator->allocate(queued->queue, bytes, what, memory);
}

static kolo_status open_memory(kolo_queued *queued)
{
    const kolo_program *program = queued->program;
    const kolo_accelerator *accelerator = queued->accelerator;
    size_t weights = (size_t)program->model->weight_count * sizeof(float);
    size_t sums = (size_t)(program->plan.metric_sums + 4) * sizeof(double);
    queued->totals_stride = aligned(sums);
    KOLO_TRY(allocate(queued, weights + 1, "a model's weights", &queued->weights));
    KOLO_TRY(allocate(queued, program->weights_bytes + 1, "a model's weights", &queued->packed));
    KOLO_TRY(allocate(queued, program->met_bytes + 1, "sums over the leaves", &queued->met));
    KOLO_TRY(allocate(queued, program->bench_bytes + 64, "the activations of a batch", &queued->bench.block));
    KOLO_TRY(allocate(queued, program->scratch_bytes + 64, "an operation's own memory", &queued->bench.scratch));
    KOLO_TRY(allocate(queued, sizeof *queued->moment, "a step's numbers", &queued->moment));
    KOLO_TRY(accelerator->allocate_host(queued->queue, KOLO_MOMENTS * sizeof *queued->moments,
                                        (void **)&queued->moments));
    if (!program->plan.training) return KOLO_OK;
    int64_t floats = (int64_t)(program->gradient_bytes / sizeof(float));
    return kolo_fold_open(floats, kolo_program_fold_memory(program), &queued->fold);
}

kolo_status kolo_queued_open(const kolo_model *model, kolo_purpose purpose, int leaf, int device, kolo_queued **queued)
{
    kolo_queued *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an engine");
    made->accelerator = model->backend->accelerator;
    kolo_status status;
    KOLO_GO(fail, made->accelerator->open(device, &made->queue));
    KOLO_GO(fail, kolo_program_open(model, purpose, leaf, made->queue, &made->program));
    made->program->plan.device_number = device;
    KOLO_GO(fail, open_memory(made));
    *queued = made;
    return KOLO_OK;
fail:
    kolo_queued_close(&made);
    return status;
}

static void close_frame(kolo_queued *queued, kolo_frame *frame)
{
    if (!frame) return;
    queued->accelerator->release(queued->queue, frame->labels);
    queued->accelerator->release(queued->queue, frame->targets);
    queued->accelerator->release(queued->queue, frame->weights);
    free(frame->memory);
    free(frame);
}

static void close_frames(kolo_queued *queued)
{
    for (int i = 0; i < queued->frame_count; i++) close_frame(queued, queued->frames[i]);
    queued->accelerator->release(queued->queue, queued->frame_blocks);
    free(queued->frames);
    queued->frames = NULL;
    queued->frame_blocks = NULL;
    queued->frame_count = 0;
    queued->memory++;
}

static void forget_turns(kolo_queued *queued)
{
    for (int i = 0; i < KOLO_TURNS; i++) {
        queued->accelerator->free_recording(queued->queue, queued->turns[i].recording);
        queued->accelerator->free_recording(queued->queue, queued->turns[i].after);
        free(queued->turns[i].nodes);
        queued->turns[i] = (kolo_turn){0};
    }
}

static void close_rings(kolo_queued *queued)
{
    for (int i = 0; i < KOLO_MOMENTS; i++) {
        queued->accelerator->free_mark(queued->queue, queued->copied[i]);
        queued->accelerator->free_mark(queued->queue, queued->arrivals[i].mark);
        queued->accelerator->release_host(queued->queue, queued->arrivals[i].totals);
    }
    queued->accelerator->release_host(queued->queue, queued->moments);
}

void kolo_queued_close(kolo_queued **queued)
{
    kolo_queued *closed = *queued;
    *queued = NULL;
    if (!closed) return;
    if (closed->queue) {
        void *const memory[] = {closed->weights,       closed->packed, closed->met,   closed->bench.block,
                                closed->bench.scratch, closed->moment, closed->totals};
        forget_turns(closed);
        kolo_fold_close(&closed->fold);
        kolo_residence_close(&closed->residence);
        close_frames(closed);
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
            closed->accelerator->release(closed->queue, memory[i]);
        close_rings(closed);
    }
    if (closed->program) kolo_program_close(&closed->program);
    if (closed->queue) closed->accelerator->close(&closed->queue);
    free(closed);
}

/* ---------------------------------------------------------------- weights and samples */

kolo_status kolo_queued_pack(kolo_queued *queued)
{
    const kolo_program *program = queued->program;
    for (int v = 0; v < program->plan.value_count; v++)
        KOLO_TRY(kolo_program_pack(program, v, queued->weights, queued->packed));
    return KOLO_OK;
}

kolo_status kolo_queued_store(kolo_queued *queued, const float *weights)
{
    size_t bytes = (size_t)queued->program->model->weight_count * sizeof *weights;
    KOLO_TRY(queued->accelerator->copy(queued->queue, queued->weights, weights, bytes));
    return kolo_queued_pack(queued);
}

kolo_status kolo_queued_attach(kolo_queued *queued, const kolo_data *data)
{
    return kolo_residence_attach(&queued->residence, queued->program, data);
}

/* ---------------------------------------------------------------- a leaf */

static kolo_status open_frame(kolo_queued *queued, int number)
{
    const kolo_plan *plan = &queued->program->plan;
    kolo_shape outputs = plan->values[plan->output].shape;
    size_t numbers = (size_t)(plan->leaf * kolo_shape_count(outputs));
    size_t rows = numbers / (size_t)outputs.dim[outputs.rank - 1];
    kolo_frame *made = queued->frames[number] = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a frame");
    made->program = queued->program;
    made->block = queued->frame_blocks + (size_t)number * queued->frame_stride;
    made->memory = calloc((size_t)plan->value_count, sizeof *made->memory);
    if (!made->memory) return kolo_fail_memory((size_t)plan->value_count * sizeof *made->memory, "a frame");
    if (plan->labels) KOLO_TRY(allocate(queued, rows * sizeof(int32_t), "labels", &made->labels));
    if (plan->targets) KOLO_TRY(allocate(queued, numbers * sizeof(float), "targets", &made->targets));
    if (plan->weights)
        KOLO_TRY(allocate(queued, (size_t)plan->leaf * sizeof(float), "weights of samples", &made->weights));
    return KOLO_OK;
}

/* A program of one segment is through with a leaf before the next. */
static kolo_status open_frames(kolo_queued *queued, int64_t leaves)
{
    int wanted = queued->program->segment_count > 1 ? (int)leaves : 1;
    if (wanted <= queued->frame_count) return KOLO_OK;
    close_frames(queued);
    queued->frame_stride = aligned(queued->program->frame_bytes + 1);
    size_t bytes = (size_t)wanted * queued->frame_stride;
    KOLO_TRY(allocate(queued, bytes, "the activations of a batch", &queued->frame_blocks));
    queued->frames = calloc((size_t)wanted, sizeof *queued->frames);
    if (!queued->frames) return kolo_fail_memory((size_t)wanted * sizeof *queued->frames, "frames");
    while (queued->frame_count < wanted) KOLO_TRY(open_frame(queued, queued->frame_count++));
    return KOLO_OK;
}

static kolo_status open_totals(kolo_queued *queued, int64_t leaves)
{
    if (leaves <= queued->totals_room) return KOLO_OK;
    queued->accelerator->release(queued->queue, queued->totals);
    queued->totals = NULL;
    queued->totals_room = 0;
    queued->memory++;
    KOLO_TRY(allocate(queued, (size_t)leaves * queued->totals_stride, "sums of losses", &queued->totals));
    queued->totals_room = leaves;
    return KOLO_OK;
}

/* A share at work: which leaf's number is which on this queue. */
typedef struct job {
    kolo_queued *queued;
    const kolo_share *share;
    float **gradients; /* [leaves of the share], or NULL */
    double *seconds;   /* of each operation; NULL: nobody looks */
} job;

static kolo_frame *frame_of(const job *j, int64_t leaf)
{
    return j->queued->frames[j->queued->frame_count > 1 ? leaf - j->share->first_leaf : 0];
}

static void bind(const job *j, int64_t leaf, int segment)
{
    kolo_queued *queued = j->queued;
    kolo_program_weights weights = {queued->packed, queued->weights};
    kolo_blocks blocks = {.weights = &weights,
                          .gradient = j->gradients ? j->gradients[leaf - j->share->first_leaf] : NULL,
                          .met = queued->met};
    kolo_frame_bind(frame_of(j, leaf), segment, &queued->bench, &blocks);
}

static kolo_status gather(const job *j, int64_t leaf)
{
    kolo_queued *queued = j->queued;
    const kolo_plan *plan = &queued->program->plan;
    const kolo_frame *frame = frame_of(j, leaf);
    kolo_leaf_arrays to = {.features = kolo_frame_input(frame),
                           .labels = frame->labels,
                           .targets = frame->targets,
                           .weights = frame->weights,
                           .outputs = kolo_shape_count(plan->values[plan->output].shape)};
    return queued->accelerator->gather(queued->queue, &queued->residence.sources, queued->moment, leaf * plan->leaf,
                                       plan->leaf, &to);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static kolo_status run_op(const job *j, int op, const kolo_call *call)
{
    kolo_queued *queued = j->queued;
    const kolo_program *program = queued->program;
    if (!j->seconds) return program->backend->run(program->kernels[op], call);
    KOLO_TRY(queued->accelerator->finish(queued->queue));
    double started = now();
    KOLO_TRY(program->backend->run(program->kernels[op], call));
    KOLO_TRY(queued->accelerator->finish(queued->queue));
    j->seconds[op] += now() - started;
    return KOLO_OK;
}

static kolo_status run_segment(const job *j, int64_t leaf, int number)
{
    kolo_queued *queued = j->queued;
    const kolo_segment *segment = &queued->program->segments[number];
    const kolo_frame *frame = frame_of(j, leaf);
    kolo_call call = {.memory = frame->memory,
                      .scratch = queued->bench.scratch,
                      .first_sample = leaf * queued->program->plan.leaf,
                      .labels = frame->labels,
                      .targets = frame->targets,
                      .weights = frame->weights,
                      .totals = (kolo_totals *)(void *)(queued->totals +
                                                        (size_t)(leaf - j->share->first_leaf) * queued->totals_stride),
                      .queue = queued->queue,
                      .moment = queued->moment};
    bind(j, leaf, number);
    if (number == 0) KOLO_TRY(gather(j, leaf));
    for (int o = segment->first; o < segment->end; o++) KOLO_TRY(run_op(j, o, &call));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- where leaves meet */

/* Through the host: the sums of other members are there. */
static kolo_status meet_others(const job *j, double *met, int64_t count)
{
    kolo_queued *queued = j->queued;
    kolo_comm *group = j->share->group;
    size_t bytes = (size_t)count * sizeof *met;
    double *sums = malloc(bytes);
    if (!sums) return kolo_fail_memory(bytes, "sums over the leaves");
    kolo_status status = queued->accelerator->copy(queued->queue, sums, met, bytes);
    if (status == KOLO_OK) status = queued->accelerator->finish(queued->queue);
    if (status == KOLO_OK) status = group->kind->allreduce(group, sums, count, KOLO_TYPE_DOUBLE);
    if (status == KOLO_OK) status = queued->accelerator->copy(queued->queue, met, sums, bytes);
    free(sums);
    return status;
}

static bool asks_others(const job *j, int op)
{
    const kolo_share *share = j->share;
    return j->queued->program->plan.ops[op].across && share->group && share->group->size > 1;
}

/* Every leaf's part is in a frame of its own, at the same place. */
static kolo_status meet(const job *j, int op)
{
    kolo_queued *queued = j->queued;
    const kolo_plan *plan = &queued->program->plan;
    const kolo_value *partial = &plan->values[plan->ops[op].in[0]], *met = &plan->values[plan->ops[op].out[0]];
    int64_t count = kolo_shape_count(met->shape);
    double *sum = (double *)(void *)((char *)queued->met + met->offset);
    int leaves = (int)(j->share->end_leaf - j->share->first_leaf);
    KOLO_TRY(queued->accelerator->sum(queued->queue, sum, queued->frame_blocks + partial->offset, queued->frame_stride,
                                      leaves, count));
    return asks_others(j, op) ? meet_others(j, sum, count) : KOLO_OK;
}

/* ---------------------------------------------------------------- a share */

static kolo_status run_leaves(const job *j)
{
    const kolo_program *program = j->queued->program;
    for (int s = 0; s < program->segment_count; s++) {
        for (int64_t leaf = j->share->first_leaf; leaf < j->share->end_leaf; leaf++) KOLO_TRY(run_segment(j, leaf, s));
        if (program->segments[s].meet >= 0) KOLO_TRY(meet(j, program->segments[s].meet));
    }
    return KOLO_OK;
}

static kolo_status clear_totals(const job *j)
{
    size_t bytes = (size_t)(j->share->end_leaf - j->share->first_leaf) * j->queued->totals_stride;
    return j->queued->accelerator->clear(j->queued->queue, j->queued->totals, bytes);
}

/* The moment of the share goes to the device, and its samples where they can be reached. */
static kolo_status tell(kolo_queued *queued, const kolo_share *share, const kolo_moment *numbers)
{
    int slot = (int)(queued->given % KOLO_MOMENTS);
    kolo_moment moment = numbers ? *numbers : (kolo_moment){0};
    moment.samples = share->batch->samples;
    moment.step = share->batch->step;
    moment.seed = share->seed;
    moment.loss_scale = share->loss_scale != 0 ? share->loss_scale : 1;
    KOLO_TRY(kolo_residence_bring(&queued->residence, share, &moment));
    if (queued->copied[slot]) KOLO_TRY(queued->accelerator->wait_mark(queued->queue, queued->copied[slot]));
    queued->moments[slot] = moment;
    KOLO_TRY(queued->accelerator->copy(queued->queue, queued->moment, &queued->moments[slot], sizeof moment));
    queued->given++;
    return queued->accelerator->set_mark(queued->queue, &queued->copied[slot]);
}

static kolo_status prepare(kolo_queued *queued, const kolo_share *share, const kolo_moment *numbers)
{
    int64_t leaves = share->end_leaf - share->first_leaf;
    if (share->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
    KOLO_TRY(open_frames(queued, leaves > 0 ? leaves : 1));
    KOLO_TRY(open_totals(queued, leaves > 0 ? leaves : 1));
    return tell(queued, share, numbers);
}

/* ---------------------------------------------------------------- computing and waiting */

static kolo_totals read_totals(const kolo_queued *queued, const char *from)
{
    kolo_totals totals = {0};
    int sums = queued->program->plan.metric_sums;
    memcpy(&totals, from, offsetof(kolo_totals, sums) + (size_t)sums * sizeof(double));
    totals.used = sums;
    return totals;
}

/* Totals of the share's leaves into the fold, and their gradients, which it takes over. */
static kolo_status hand_over(const job *j, kolo_fold *fold)
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
                          .totals = read_totals(queued, totals + (size_t)i * queued->totals_stride)};
        if (j->gradients) j->gradients[i] = NULL;
        status = kolo_fold_insert(fold, node);
    }
    free(totals);
    return status;
}

static kolo_status keep_outputs(const job *j, int64_t leaf)
{
    kolo_queued *queued = j->queued;
    const kolo_share *share = j->share;
    const kolo_plan *plan = &queued->program->plan;
    size_t elements = (size_t)kolo_shape_count(plan->values[plan->output].shape);
    int64_t left = share->batch->samples - leaf * plan->leaf, count = left < plan->leaf ? left : plan->leaf;
    float *target = share->outputs + (size_t)(leaf * plan->leaf) * elements;
    return queued->accelerator->copy(queued->queue, target, kolo_frame_output(frame_of(j, leaf)),
                                     (size_t)count * elements * sizeof *target);
}

/* Leaves that do not meet are computed one at a time, so that memory is one leaf's. */
static kolo_status compute_part(const job *j, kolo_fold *fold)
{
    int64_t leaves = j->share->end_leaf - j->share->first_leaf;
    for (int64_t i = 0; j->gradients && i < leaves; i++) KOLO_TRY(kolo_fold_borrow(fold, &j->gradients[i]));
    KOLO_TRY(prepare(j->queued, j->share, NULL));
    KOLO_TRY(clear_totals(j));
    KOLO_TRY(run_leaves(j));
    if (j->share->outputs) KOLO_TRY(keep_outputs(j, j->share->first_leaf));
    return fold ? hand_over(j, fold) : j->queued->accelerator->finish(j->queued->queue);
}

static kolo_status run_part(kolo_queued *queued, const kolo_share *share, kolo_fold *fold, double *seconds)
{
    int64_t leaves = share->end_leaf - share->first_leaf;
    job j = {.queued = queued, .share = share, .seconds = seconds};
    if (fold && queued->program->plan.training) {
        j.gradients = calloc((size_t)leaves + 1, sizeof *j.gradients);
        if (!j.gradients) return kolo_fail_memory((size_t)leaves * sizeof *j.gradients, "gradients");
    }
    kolo_status status = compute_part(&j, fold);
    for (int64_t i = 0; j.gradients && i < leaves; i++) kolo_fold_return(fold, j.gradients[i]);
    free(j.gradients);
    return status;
}

kolo_status kolo_queued_run(kolo_queued *queued, const kolo_share *share, kolo_fold *fold, double *seconds)
{
    if (queued->program->meets) return run_part(queued, share, fold, seconds);
    for (int64_t leaf = share->first_leaf; leaf < share->end_leaf; leaf++) {
        kolo_share part = *share;
        part.first_leaf = leaf;
        part.end_leaf = leaf + 1;
        KOLO_TRY(run_part(queued, &part, fold, seconds));
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- training: recordings */

static bool serves(const kolo_turn *turn, const kolo_queued *queued, const kolo_share *share)
{
    return turn->nodes && turn->first_leaf == share->first_leaf && turn->end_leaf == share->end_leaf &&
           turn->leaves == kolo_batch_leaves(share->batch) && turn->ordered == queued->residence.ordered &&
           turn->version == queued->residence.version && turn->memory == queued->memory;
}

static kolo_status new_turn(kolo_queued *queued, const kolo_share *share, kolo_turn **turn)
{
    kolo_turn *oldest = &queued->turns[0];
    for (int i = 1; i < KOLO_TURNS; i++)
        if (queued->turns[i].used < oldest->used) oldest = &queued->turns[i];
    queued->accelerator->free_recording(queued->queue, oldest->recording);
    queued->accelerator->free_recording(queued->queue, oldest->after);
    oldest->recording = oldest->after = NULL;
    if (!oldest->nodes) oldest->nodes = calloc(KOLO_FOLD_MOST, sizeof *oldest->nodes);
    if (!oldest->nodes) return kolo_fail_memory(KOLO_FOLD_MOST * sizeof *oldest->nodes, "a recording");
    oldest->first_leaf = share->first_leaf;
    oldest->end_leaf = share->end_leaf;
    oldest->leaves = kolo_batch_leaves(share->batch);
    oldest->ordered = queued->residence.ordered;
    oldest->version = queued->residence.version;
    oldest->memory = queued->memory;
    oldest->node_count = 0;
    *turn = oldest;
    return KOLO_OK;
}

/* The share, and its sums up the tree. Their memory is the fold's again, but nobody takes it before they are read:
 * what follows in the queue does. */
static kolo_status give_leaves(kolo_queued *queued, const kolo_share *share, kolo_turn *turn, float **gradients)
{
    job j = {.queued = queued, .share = share, .gradients = gradients};
    int64_t leaves = share->end_leaf - share->first_leaf;
    kolo_fold_begin(queued->fold, turn->leaves);
    for (int64_t i = 0; i < leaves; i++) KOLO_TRY(kolo_fold_borrow(queued->fold, &gradients[i]));
    KOLO_TRY(clear_totals(&j));
    KOLO_TRY(run_leaves(&j));
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

static bool can_be_recorded(const kolo_queued *queued, const kolo_share *share)
{
    const kolo_program *program = queued->program;
    job j = {.queued = (kolo_queued *)(uintptr_t)queued, .share = share};
    for (int s = 0; s < program->segment_count; s++)
        if (program->segments[s].meet >= 0 && asks_others(&j, program->segments[s].meet)) return false;
    return true;
}

/* Memory that the first time takes must be there before: none can be taken while a recording is made. */
static kolo_status reserve_gradients(kolo_queued *queued, int64_t leaves, float **gradients)
{
    for (int64_t i = 0; i < leaves; i++) KOLO_TRY(kolo_fold_borrow(queued->fold, &gradients[i]));
    for (int64_t i = 0; i < leaves; i++) {
        kolo_fold_return(queued->fold, gradients[i]);
        gradients[i] = NULL;
    }
    return KOLO_OK;
}

static kolo_status record_turn(kolo_queued *queued, const kolo_share *share, kolo_turn *turn, float **gradients)
{
    const kolo_accelerator *accelerator = queued->accelerator;
    KOLO_TRY(reserve_gradients(queued, share->end_leaf - share->first_leaf, gradients));
    KOLO_TRY(accelerator->record(queued->queue));
    kolo_status status = give_leaves(queued, share, turn, gradients);
    kolo_recording *recording = NULL;
    kolo_status ended = accelerator->recorded(queued->queue, &recording);
    turn->recording = recording;
    KOLO_TRY(status);
    KOLO_TRY(ended);
    return accelerator->replay(queued->queue, recording);
}

static kolo_status begin_turn(kolo_queued *queued, const kolo_share *share, kolo_turn *turn)
{
    int64_t leaves = share->end_leaf - share->first_leaf;
    float **gradients = calloc((size_t)leaves + 1, sizeof *gradients);
    if (!gradients) return kolo_fail_memory((size_t)leaves * sizeof *gradients, "gradients");
    kolo_status status = can_be_recorded(queued, share) ? record_turn(queued, share, turn, gradients)
                                                        : give_leaves(queued, share, turn, gradients);
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

/* ---------------------------------------------------------------- training: totals */

static kolo_status send_totals(kolo_queued *queued, const kolo_share *share)
{
    kolo_arrival *arrival = &queued->arrivals[(queued->given - 1) % KOLO_MOMENTS];
    int64_t leaves = share->end_leaf - share->first_leaf;
    size_t bytes = (size_t)leaves * queued->totals_stride;
    if (leaves > arrival->room) {
        queued->accelerator->release_host(queued->queue, arrival->totals);
        arrival->totals = NULL;
        arrival->room = 0;
        KOLO_TRY(queued->accelerator->allocate_host(queued->queue, bytes, (void **)&arrival->totals));
        arrival->room = leaves;
    }
    arrival->first_leaf = share->first_leaf;
    arrival->end_leaf = share->end_leaf;
    arrival->leaves = kolo_batch_leaves(share->batch);
    KOLO_TRY(queued->accelerator->copy(queued->queue, arrival->totals, queued->totals, bytes));
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
        status = kolo_fold_insert(*fold, (kolo_node){.index = l, .totals = read_totals(queued, from)});
    }
    return status;
}

static kolo_status add_arrival(const kolo_queued *queued, const kolo_arrival *arrival, kolo_totals *totals)
{
    kolo_fold *fold = NULL;
    kolo_status status = open_arrival(queued, arrival, &fold);
    if (status == KOLO_OK) {
        kolo_totals sum = kolo_fold_totals(fold);
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
        if (!arrival->mark || arrival->end_leaf == arrival->first_leaf) continue;
        KOLO_TRY(add_arrival(queued, arrival, totals));
        arrival->end_leaf = arrival->first_leaf;
    }
    return KOLO_OK;
}

kolo_status kolo_queued_give(kolo_queued *queued, const kolo_share *share, const kolo_moment *numbers, kolo_turn **turn)
{
    KOLO_TRY(prepare(queued, share, numbers));
    KOLO_TRY(take_turn(queued, share, turn));
    return send_totals(queued, share);
}
