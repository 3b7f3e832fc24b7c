/* The gradient of an update by Adasum between ranks: see comm/adasum.h and reduce.c.
 *
 * As in Horovod on several GPUs, the devices of one rank add their gradients up, and ranks combine the sums by Adasum.
 * The formula is for mean gradients: each rank divides its sum by the number of its samples. The update divides by the
 * number of all samples, so the result is multiplied by that. */
#include <stdlib.h>

#include "comm/adasum.h"
#include "replica/trainer.h"

bool kolo_replica_uses_adasum(const kolo_replica *replica)
{
    const kolo_model *model = replica->trainer->model;
    return kolo_model_distributed(model) && model->settings.optimizer.reduction == KOLO_REDUCE_ADASUM;
}

/* Samples of the batch on this rank. */
static double own_samples(const kolo_trainer *trainer)
{
    double samples = 0;
    for (int i = 0; i < trainer->running; i++) samples += trainer->replicas[i].shard_samples;
    return samples;
}

/* Multiplies the gradients of the parameters that the optimizer trains. Running means are plain sums over samples. */
static void scale(const kolo_replica *replica, const kolo_adasum_part *parts, double by)
{
    int64_t at = 0;
    for (int p = 0; p < replica->trainer->model->parameter_count; at = parts[p++].end)
        for (int64_t i = at; !parts[p].plain && i < parts[p].end; i++)
            replica->gradient[i] = (float)((double)replica->gradient[i] * by);
}

/* Combines the ranks' gradients on the host. */
static kolo_status combine(kolo_replica *replica)
{
    const kolo_model *model = replica->trainer->model;
    double own = own_samples(replica->trainer);
    kolo_adasum_part *parts = calloc((size_t)model->parameter_count, sizeof *parts);
    if (!parts) return kolo_fail_memory((size_t)model->parameter_count * sizeof *parts, "Adasum");
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        parts[p].end = parameter->offset + kolo_shape_count(parameter->shape);
        parts[p].plain = parameter->momentum > 0;
    }
    if (own > 0) scale(replica, parts, 1 / own);
    kolo_status status = kolo_adasum(kolo_model_ranks(model), replica->gradient, parts, model->parameter_count);
    scale(replica, parts, replica->samples);
    free(parts);
    return status;
}

kolo_status kolo_replica_adasum(kolo_replica *replica)
{
    KOLO_TRY(kolo_replica_fetch_gradient(replica));
    KOLO_TRY(combine(replica));
    return kolo_replica_store_gradient(replica);
}

kolo_status kolo_replica_adasum_of_copies(kolo_replica *replica)
{
    kolo_comm *local = replica->local;
    int64_t count = replica->trainer->model->weight_count;
    KOLO_TRY(kolo_replica_fetch_gradient(replica));
    KOLO_TRY(local->kind->allreduce(local, replica->gradient, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
    if (local->rank == 0) KOLO_TRY(combine(replica));
    KOLO_TRY(local->kind->broadcast(local, replica->gradient, (size_t)count * sizeof(float), 0));
    return kolo_replica_store_gradient(replica);
}
