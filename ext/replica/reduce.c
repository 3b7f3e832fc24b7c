/* Members agree on the sum of their gradients: see strategy.h. */
#include <stdlib.h>
#include <string.h>

#include "backend/staged_comm.h"
#include "comm/sum.h"
#include "replica/trainer.h"
#include "replica/tree_sum.h"
#include "core/clock.h"

/* ---------------------------------------------------------------- waiting and comms */

kolo_status kolo_replica_wait(kolo_replica *replica)
{
    kolo_comm *local = replica->local;
    return replica->trainer->running > 1 ? local->kind->barrier(local) : KOLO_OK;
}

kolo_status kolo_replica_meet(kolo_replica *replica)
{
    return replica->trainer->weight_placement == KOLO_WEIGHTS_COPIED ? KOLO_OK : kolo_replica_wait(replica);
}

void kolo_replica_part(kolo_replica *replica)
{
    if (replica->comm && replica->comm != replica->group) replica->comm->kind->close(replica->comm);
    replica->comm = NULL;
    if (replica->engine) replica->engine->comm = NULL;
}

/* It is asked for once; all members get the same answer. */
kolo_status kolo_replica_join(kolo_replica *replica)
{
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    if (replica->comm) return KOLO_OK;
    if (streams->open_comm && streams->open_comm(replica->stream, replica->group, &replica->comm) == KOLO_OK)
        return KOLO_OK;
    if (streams->open_comm) {
        kolo_failure failure = kolo_failure_take();
        if (replica->index == 0) kolo_warn("sums over the devices are made on the host: %s", failure.text);
    }
    return kolo_staged_comm_open(streams, replica->stream, replica->group, &replica->comm);
}

/* ---------------------------------------------------------------- a replica's own sum */

static int64_t weights_of(const kolo_replica *replica)
{
    return replica->trainer->model->weight_count;
}

/* The sums that the share left are added to the first of them. */
static kolo_status add_nodes(kolo_replica *replica, const kolo_gradient_node *nodes, int count)
{
    kolo_reduction_memory memory = kolo_program_reduction_memory(replica->engine->program);
    for (int i = 1; i < count; i++) KOLO_TRY(memory.add(memory.whose, nodes[0].gradient, nodes[i].gradient));
    return KOLO_OK;
}

kolo_status kolo_replica_nodes_sum(kolo_replica *replica, const float **sum)
{
    kolo_gradient_node nodes[KOLO_REDUCTION_MOST];
    int count;
    KOLO_TRY(kolo_engine_nodes(replica->engine, nodes, &count));
    *sum = count > 0 ? nodes[0].gradient : NULL;
    return add_nodes(replica, nodes, count);
}

kolo_status kolo_replica_collect(kolo_replica *replica)
{
    const float *sum;
    float *gradient = replica->there.gradient;
    if (replica->collected) return KOLO_OK;
    replica->collected = true;
    KOLO_TRY(kolo_replica_nodes_sum(replica, &sum));
    if (sum) return kolo_program_unpack(replica->engine->program, sum, gradient);
    return kolo_replica_streams(replica)->clear(replica->stream, gradient,
                                                (size_t)weights_of(replica) * sizeof *gradient);
}

kolo_status kolo_replica_gradient(kolo_replica *replica, float **gradient)
{
    *gradient = replica->gradient;
    replica->summed = true;
    KOLO_TRY(kolo_replica_collect(replica));
    return kolo_replica_fetch_gradient(replica);
}

/* Where the sum of all is with one owner, the others have nothing to gather. */
kolo_status kolo_replica_accumulate(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    float *waiting = replica->there.waiting, *gradient = replica->there.gradient;
    size_t bytes = (size_t)weights_of(replica) * sizeof *gradient;
    bool one_sum = trainer->model->settings.deterministic || trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    if (!waiting || (one_sum && kolo_replica_owner(replica) != replica)) return KOLO_OK;
    KOLO_TRY(streams->add(replica->stream, waiting, gradient, weights_of(replica)));
    if (!replica->complete) return KOLO_OK;
    KOLO_TRY(streams->copy(replica->stream, gradient, waiting, bytes));
    return streams->clear(replica->stream, waiting, bytes);
}

/* ---------------------------------------------------------------- between members */

/* In one tree over all members, whose nodes are canonical and the host's. */
static kolo_status agree_in_order(kolo_replica *replica)
{
    KOLO_TRY(kolo_tree_sum(replica));
    replica->totals.loss += replica->totals.samples * replica->engine->penalty;
    KOLO_TRY(kolo_replica_store_gradient(replica));
    KOLO_TRY(kolo_replica_accumulate(replica));
    return replica->waiting ? kolo_replica_meet(replica) : KOLO_OK;
}

/* The process's sum, and when the group of batches is complete that of all ranks. */
static kolo_status sum_over_ranks(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    kolo_comm *ranks = kolo_model_ranks(trainer->model);
    kolo_totals *totals = &trainer->sum_totals;
    KOLO_TRY(kolo_replica_collect(replica));
    KOLO_TRY(kolo_replica_accumulate(replica));
    *totals = replica->own;
    if (replica->complete)
        KOLO_TRY(ranks->kind->allreduce(ranks, replica->there.gradient, weights_of(replica), KOLO_TYPE_FLOAT));
    KOLO_TRY(ranks->kind->allreduce(ranks, totals, kolo_totals_size(totals), KOLO_TYPE_DOUBLE));
    totals->used = replica->own.used;
    return KOLO_OK;
}

/* Replicas that share the weights have put their gradients into one tree. What is left is one sum, as on one device. */
static kolo_status agree_in_one_tree(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    if (trainer->model->settings.deterministic || replica->group == replica->local) return agree_in_order(replica);
    double started = kolo_now();
    KOLO_TRY(kolo_replica_meet(replica));
    replica->timings.waiting += kolo_now() - started;
    if (replica->index == 0) kolo_replica_own_totals(replica);
    if (replica->index == 0) KOLO_TRY(sum_over_ranks(replica));
    KOLO_TRY(kolo_replica_meet(replica));
    replica->totals = trainer->sum_totals;
    return KOLO_OK;
}

void kolo_replica_own_totals(kolo_replica *replica)
{
    double stops = replica->own.stops, used = replica->own.used;
    replica->own = kolo_reduction_totals(replica->trainer->totals_tree);
    replica->own.loss += replica->own.samples * replica->engine->penalty;
    replica->own.stops = stops;
    replica->own.used = used;
}

/* The first thing that members do together: here those who are done wait for the others. Totals that are not told yet
 * are summed when they have arrived. */
static kolo_status sum_totals_of_all(kolo_replica *replica)
{
    kolo_totals *totals = &replica->totals;
    double started = kolo_now();
    if (!replica->told) return KOLO_OK;
    KOLO_TRY(replica->group->kind->allreduce(replica->group, totals, kolo_totals_size(totals), KOLO_TYPE_DOUBLE));
    totals->used = replica->own.used; /* a number of sums, not a sum */
    replica->timings.waiting += kolo_now() - started;
    return KOLO_OK;
}

static kolo_status agree_by_allreduce(kolo_replica *replica)
{
    KOLO_TRY(kolo_replica_collect(replica));
    KOLO_TRY(sum_totals_of_all(replica));
    KOLO_TRY(kolo_replica_accumulate(replica));
    if (!replica->complete) return KOLO_OK;
    KOLO_TRY(kolo_replica_join(replica));
    return replica->comm->kind->allreduce(replica->comm, replica->there.gradient, weights_of(replica), KOLO_TYPE_FLOAT);
}

/* ---------------------------------------------------------------- how much was sent */

static int64_t gradient_bytes(const kolo_replica *replica)
{
    return weights_of(replica) * (int64_t)sizeof(float);
}

/* A member of a group of N sends so much in a reduce-scatter, and receives so much in an all-gather, of all weights. */
static int64_t slice_bytes(const kolo_replica *replica)
{
    return gradient_bytes(replica) * (replica->group->size - 1) / replica->group->size;
}

/* What it hands over to whoever sums: nothing, where that is itself. */
static int64_t bytes_to_others(const kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    bool away = trainer->parameter_stream || replica->index != trainer->updater;
    return away ? gradient_bytes(replica) : 0;
}

/* ---------------------------------------------------------------- the calls */

/* A group of batches is summed over all members when it is complete, as Horovod's backward_passes_per_step has it; in
 * deterministic mode after every batch, since the order of a sum must not depend on who computed what. One that is
 * alone begins its update with the sum. */
kolo_status kolo_replica_allreduce(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    double started = kolo_now(), waited = replica->timings.waiting;
    bool shares = trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    replica->agreed = true;
    replica->summed = false;
    if (shares) KOLO_TRY(agree_in_one_tree(replica));
    else if (replica->group->size == 1) return KOLO_OK;
    else if (trainer->model->settings.deterministic) KOLO_TRY(agree_in_order(replica));
    else KOLO_TRY(agree_by_allreduce(replica));
    replica->timings.reduce += kolo_now() - started - (replica->timings.waiting - waited);
    bool once = shares && replica->group == replica->local;
    replica->timings.reduced_bytes += (once ? 1 : 2) * slice_bytes(replica);
    return KOLO_OK;
}

#define PIECE 8192 /* elements that a lane sums at a time */

/* Over all replicas in their order: the same bits as an all-reduce's. */
static kolo_status add_piece(void *argument, int lane, int64_t number)
{
    (void)lane;
    kolo_trainer *trainer = argument;
    int64_t first = number * PIECE, end = first + PIECE, count = trainer->model->weight_count;
    void *from[KOLO_DEVICES_MAX];
    for (int i = 0; i < trainer->count; i++) from[i] = trainer->replicas[i].there.gradient;
    kolo_sum_slice(KOLO_TYPE_FLOAT, from, trainer->count, from, 1, first, end < count ? end : count);
    return KOLO_OK;
}

/* On the parameter device. */
static kolo_status add_all(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    if (replica->index != trainer->updater) return KOLO_OK;
    kolo_stream *stream = trainer->parameter_stream ? trainer->parameter_stream : replica->stream;
    int64_t pieces = (weights_of(replica) + PIECE - 1) / PIECE;
    return kolo_replica_streams(replica)->for_each(stream, 0, pieces, false, add_piece, trainer);
}

kolo_status kolo_replica_reduce(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    bool between_ranks = replica->group != replica->local;
    bool deterministic = trainer->model->settings.deterministic;
    if (trainer->weight_placement != KOLO_WEIGHTS_CENTRAL || between_ranks || deterministic)
        return kolo_replica_allreduce(replica);
    double started = kolo_now(), waited = replica->timings.waiting;
    replica->agreed = true;
    replica->summed = false;
    KOLO_TRY(kolo_replica_collect(replica));
    KOLO_TRY(kolo_replica_accumulate(replica));
    KOLO_TRY(sum_totals_of_all(replica)); /* now all gradients are there */
    if (replica->complete) KOLO_TRY(add_all(replica));
    replica->timings.reduce += kolo_now() - started - (replica->timings.waiting - waited);
    if (replica->complete) replica->timings.reduced_bytes += bytes_to_others(replica);
    return KOLO_OK;
}
