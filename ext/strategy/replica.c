/* What a step is made of, for whoever writes a strategy: see strategy.h. */
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

static kolo_share share_of(const kolo_replica *replica, const kolo_batch *batch)
{
    const kolo_comm *group = replica->group;
    int64_t leaves = kolo_batch_leaves(batch);
    return (kolo_share){.data = replica->trainer->data,
                        .batch = batch,
                        .seed = replica->trainer->seed,
                        .first_leaf = kolo_share_begin(leaves, group->rank, group->size),
                        .end_leaf = kolo_share_begin(leaves, group->rank + 1, group->size),
                        .loss_scale = replica->counters.sample_scale,
                        .stoppable = replica->group == replica->local,
                        .group = replica->group,
                        .deterministic = replica->trainer->model->settings.deterministic};
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
    kolo_counters *counters = &replica->counters;
    double per_sample = trainer->model->settings.precision == KOLO_MIXED_FP16 ? 1 / (double)batch->samples : 1;
    if (counters->waiting == 0) counters->sample_scale = counters->loss_scale * per_sample;
    kolo_share share = share_of(replica, batch);
    kolo_fold_begin(replica->fold, kolo_batch_leaves(batch));
    KOLO_TRY(kolo_engine_run(replica->engine, &share, replica->fold));
    replica->gathered = false;
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
    for (int i = 1; i < count; i++) kolo_program_add(program, nodes[0].gradient, nodes[i].gradient);
    if (count > 0) status = kolo_program_unpack(program, nodes[0].gradient, replica->gradient);
    for (int i = 0; i < count; i++) kolo_fold_return(replica->fold, nodes[i].gradient);
    return status;
}

/* A group of batches is summed over all members when it is complete, as Horovod's backward_passes_per_step has it; in
 * deterministic mode after every batch, since the order of a sum must not depend on who computed what. */
kolo_status kolo_replica_allreduce(kolo_replica *replica)
{
    if (replica->trainer->model->settings.deterministic) {
        KOLO_TRY(kolo_tree_sum(replica));
        kolo_replica_gather(replica);
        return KOLO_OK;
    }
    kolo_comm *group = replica->group;
    float *gradient;
    KOLO_TRY(kolo_replica_gradient(replica, &gradient));
    if (kolo_replica_gather(replica))
        KOLO_TRY(group->kind->allreduce(group, replica->gradient, kolo_replica_count(replica), KOLO_TYPE_FLOAT));
    kolo_totals *totals = &replica->totals;
    KOLO_TRY(group->kind->allreduce(group, totals, kolo_totals_size(totals), KOLO_TYPE_DOUBLE));
    totals->used = replica->own.used; /* a number of sums, not a sum */
    return KOLO_OK;
}
