/* What a step is made of, for whoever writes a strategy: see strategy.h. */
#include <stdatomic.h>
#include <string.h>

#include "core/runtime.h"
#include "core/trainer.h"
#include "strategy/tree_sum.h"

kolo_comm *kolo_replica_comm(kolo_replica *replica)
{
    return replica->group;
}

float *kolo_replica_weights(kolo_replica *replica)
{
    return replica->weights;
}

int64_t kolo_replica_count(const kolo_replica *replica)
{
    return replica->trainer->model->weight_count;
}

kolo_totals *kolo_replica_totals(kolo_replica *replica)
{
    return &replica->totals;
}

kolo_status kolo_replica_pack(kolo_replica *replica)
{
    return kolo_engine_pack(replica->engine, replica->weights);
}

/* ---------------------------------------------------------------- compute */

/* Leaves are dealt in contiguous runs, as evenly as they go. */
static kolo_share share_of(const kolo_replica *replica, const kolo_batch *batch)
{
    const kolo_comm *group = replica->group;
    int64_t leaves = kolo_batch_leaves(batch);
    return (kolo_share){.data = replica->trainer->data,
                        .batch = batch,
                        .seed = replica->trainer->seed,
                        .first_leaf = leaves * group->rank / group->size,
                        .end_leaf = leaves * (group->rank + 1) / group->size,
                        .stoppable = replica->group == replica->local};
}

/* Totals of the nodes that the replica is left with, in the order of their leaves; the nodes stay. */
static kolo_totals sum_totals(kolo_fold *fold)
{
    kolo_node nodes[KOLO_FOLD_MOST];
    kolo_totals totals = {0};
    int count = kolo_fold_take(fold, nodes);
    for (int i = 0; i < count; i++) {
        kolo_totals_add(&totals, &nodes[i].totals);
        kolo_fold_insert(fold, nodes[i]); /* has no sibling here: the fold had its chance */
    }
    return totals;
}

kolo_status kolo_replica_compute(kolo_replica *replica, const kolo_batch *batch)
{
    kolo_trainer *trainer = replica->trainer;
    kolo_share share = share_of(replica, batch);
    kolo_fold_begin(replica->fold, kolo_batch_leaves(batch));
    KOLO_TRY(kolo_engine_run(replica->engine, &share, replica->fold));
    replica->own = sum_totals(replica->fold);
    replica->own.used = replica->engine->program->plan.metric_sums; /* also where it had no leaf */
    bool stop = replica->index == 0 && (kolo_stop_requested() || trainer->model->stop_training);
    replica->own.stops = stop ? 1 : 0;
    replica->totals = replica->own;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- agree */

kolo_status kolo_replica_gradient(kolo_replica *replica, float **gradient)
{
    const kolo_program *program = replica->engine->program;
    kolo_node nodes[KOLO_FOLD_MOST];
    int count = kolo_fold_take(replica->fold, nodes);
    *gradient = replica->gradient;
    kolo_status status = KOLO_OK;
    if (count == 0) memset(replica->gradient, 0, (size_t)kolo_replica_count(replica) * sizeof(float));
    for (int i = 1; i < count; i++)
        program->backend->add(nodes[0].gradient, nodes[i].gradient, (int64_t)(program->gradient_bytes / sizeof(float)));
    if (count > 0) status = kolo_program_unpack(program, nodes[0].gradient, replica->gradient);
    for (int i = 0; i < count; i++) kolo_fold_return(replica->fold, nodes[i].gradient);
    return status;
}

kolo_status kolo_replica_allreduce(kolo_replica *replica)
{
    if (replica->trainer->model->settings.deterministic) return kolo_tree_sum(replica);
    kolo_comm *group = replica->group;
    float *gradient;
    KOLO_TRY(kolo_replica_gradient(replica, &gradient));
    KOLO_TRY(group->kind->allreduce(group, gradient, kolo_replica_count(replica), KOLO_TYPE_FLOAT));
    kolo_totals *totals = &replica->totals;
    KOLO_TRY(group->kind->allreduce(group, totals, kolo_totals_size(totals), KOLO_TYPE_DOUBLE));
    totals->used = replica->own.used; /* a number of sums, not a sum */
    return KOLO_OK;
}

/* ---------------------------------------------------------------- update */

typedef struct update_job {
    kolo_replica *replica;
    double scale;
} update_job;

/* A running mean takes in what was handed over as its gradient. */
static void move(float *mean, const float *sum, int64_t count, double momentum, double scale)
{
    for (int64_t i = 0; i < count; i++)
        mean[i] = (float)(momentum * (double)mean[i] + (1 - momentum) * scale * (double)sum[i]);
}

/* Elements first … end-1 of the flat arrays, all of one parameter. */
static void update_part(const update_job *job, const kolo_parameter *parameter, int64_t first, int64_t end)
{
    kolo_replica *replica = job->replica;
    const kolo_model *model = replica->trainer->model;
    float *weights = replica->weights + first, *gradient = replica->gradient + first;
    kolo_update update = {.optimizer = &model->settings.optimizer,
                          .learning_rate = model->learning_rate,
                          .step = replica->updates,
                          .weights = weights,
                          .gradient = gradient,
                          .scale = job->scale,
                          .count = end - first};
    for (int i = 0; i < model->settings.optimizer.kind->slots; i++) update.slots[i] = replica->slots[i] + first;
    if (parameter->momentum > 0) move(weights, gradient, end - first, parameter->momentum, job->scale);
    else model->settings.optimizer.kind->update(&update);
}

/* Each thread of the replica updates its slice of the arrays. */
static kolo_status update_slice(void *argument, int member)
{
    update_job *job = argument;
    const kolo_model *model = job->replica->trainer->model;
    int members = kolo_team_size(job->replica->engine->team);
    int64_t first = model->weight_count * member / members, end = model->weight_count * (member + 1) / members;
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        int64_t begins = parameter->offset, ends = begins + kolo_shape_count(parameter->shape);
        if (begins < first) begins = first;
        if (ends > end) ends = end;
        if (begins < ends) update_part(job, parameter, begins, ends);
    }
    return KOLO_OK;
}

kolo_status kolo_replica_update(kolo_replica *replica)
{
    if (!(replica->totals.samples > 0)) return KOLO_OK; /* nothing was computed: there is no mean to follow */
    update_job job = {replica, 1 / replica->totals.samples};
    replica->updates++;
    KOLO_TRY(kolo_team_run(replica->engine->team, update_slice, &job));
    return kolo_replica_pack(replica);
}
