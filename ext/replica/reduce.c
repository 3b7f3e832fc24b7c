/* Sums the gradients over the members of a group. See strategy/strategy.h. */
#include <stdlib.h>
#include <string.h>

#include "backend/staged_comm.h"
#include "comm/sum.h"
#include "replica/overlap.h"
#include "replica/rank_sum.h"
#include "replica/second_stream.h"
#include "replica/tree_sum.h"
#include "core/clock.h"

/* ---------------------------------------------------------------- waiting and comms */

kolo_status kolo_replica_wait(kolo_replica *replica)
{
    kolo_comm *local = replica->local;
    return replica->trainer->running > 1 ? local->kind->barrier(local) : KOLO_OK;
}

kolo_status kolo_replica_wait_for_sharers(kolo_replica *replica)
{
    return replica->trainer->weight_placement == KOLO_WEIGHTS_COPIED ? KOLO_OK : kolo_replica_wait(replica);
}

void kolo_replica_leave(kolo_replica *replica)
{
    kolo_second_stream_leave(replica);
    if (replica->comm && replica->comm != replica->group) replica->comm->kind->close(replica->comm);
    replica->comm = NULL;
    if (replica->engine) replica->engine->comm = NULL;
}

/* Tries to open the stream's comm. All members get the same answer, so all fall back to the staged comm together. */
kolo_status kolo_replica_join(kolo_replica *replica)
{
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    if (replica->comm) return KOLO_OK;
    bool on_host = replica->arrays.gradient == replica->gradient;
    bool own = !on_host && replica->trainer->model->settings.optimizer.comm; /* it sums memory of the host */
    if (!own && streams->open_comm && streams->open_comm(replica->stream, replica->group, &replica->comm) == KOLO_OK)
        return KOLO_OK;
    if (!own && streams->open_comm) {
        kolo_failure failure = kolo_failure_take();
        if (replica->index == 0) kolo_warn("sums over the devices are made on the host: %s", failure.text);
    }
    return kolo_staged_comm_open(streams, replica->stream, replica->group, &replica->comm);
}

/* ---------------------------------------------------------------- the sum of one replica */

static int64_t weights_of(const kolo_replica *replica)
{
    return replica->trainer->model->weight_count;
}

static int64_t gradient_bytes(const kolo_replica *replica)
{
    return weights_of(replica) * (int64_t)sizeof(float);
}

/* Adds all nodes of the shard to the first one. */
static kolo_status add_nodes(kolo_replica *replica, const kolo_gradient_node *nodes, int count)
{
    const kolo_gradients *gradients = &replica->engine->program->gradients;
    for (int i = 1; i < count; i++) KOLO_TRY(kolo_gradients_add(gradients, nodes[0].gradient, nodes[i].gradient));
    return KOLO_OK;
}

kolo_status kolo_replica_nodes_sum(kolo_replica *replica, const float **sum)
{
    kolo_gradient_node nodes[KOLO_REDUCTION_NODES_MAX];
    int count;
    KOLO_TRY(kolo_engine_nodes(replica->engine, nodes, &count));
    *sum = count > 0 ? nodes[0].gradient : NULL;
    return add_nodes(replica, nodes, count);
}

kolo_status kolo_replica_collect(kolo_replica *replica)
{
    const float *sum;
    float *gradient = replica->arrays.gradient;
    if (replica->collected) return KOLO_OK;
    replica->collected = true;
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(kolo_replica_nodes_sum(replica, &sum));
    if (sum) KOLO_TRY(kolo_program_unpack(replica->engine->program, sum, gradient));
    kolo_timeline_end_with(begun, kolo_replica_span(replica, KOLO_SPAN_PACK), "gradients", -1, gradient_bytes(replica));
    if (sum) return KOLO_OK;
    return kolo_replica_streams(replica)->clear(replica->stream, gradient,
                                                (size_t)weights_of(replica) * sizeof *gradient);
}

kolo_status kolo_replica_gradient(kolo_replica *replica, float **gradient)
{
    *gradient = replica->gradient;
    replica->gradient_on_host = true;
    replica->called |= KOLO_CALLED_CHANGE; /* who takes the gradient may change the weights by it */
    KOLO_TRY(kolo_replica_collect(replica));
    return kolo_replica_fetch_gradient(replica);
}

kolo_status kolo_replica_add_accumulated(kolo_replica *replica, int64_t first, int64_t count)
{
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    if (!replica->arrays.accumulated) return KOLO_OK;
    float *accumulated = replica->arrays.accumulated + first, *gradient = replica->arrays.gradient + first;
    size_t bytes = (size_t)count * sizeof *gradient;
    KOLO_TRY(streams->add(replica->stream, accumulated, gradient, count));
    KOLO_TRY(streams->copy(replica->stream, gradient, accumulated, bytes));
    return streams->clear(replica->stream, accumulated, bytes);
}

/* Where the owner of the shared weights has the sum of all replicas, the others have nothing to accumulate. */
kolo_status kolo_replica_accumulate(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    float *accumulated = replica->arrays.accumulated;
    bool one_sum = trainer->model->settings.deterministic || trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    if (!accumulated || (one_sum && kolo_replica_owner(replica) != replica)) return KOLO_OK;
    if (replica->complete) return kolo_replica_add_accumulated(replica, 0, weights_of(replica));
    return streams->add(replica->stream, accumulated, replica->arrays.gradient, weights_of(replica));
}

/* ---------------------------------------------------------------- between members */

/* Sums over all members in one reduction tree. The result is canonical, on the host. */
static kolo_status agree_in_order(kolo_replica *replica)
{
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(kolo_tree_sum(replica));
    kolo_timeline_end_with(begun, KOLO_SPAN_REDUCE, "sum gradients", -1, gradient_bytes(replica));
    replica->totals.loss += replica->totals.samples * replica->engine->penalty;
    KOLO_TRY(kolo_replica_store_gradient(replica));
    KOLO_TRY(kolo_replica_accumulate(replica));
    return replica->accumulated ? kolo_replica_wait_for_sharers(replica) : KOLO_OK;
}

/* Sums the gradients, and notes the time that this takes between ranks. */
static kolo_status sum_gradients(kolo_replica *replica, kolo_status (*sum)(kolo_replica *replica))
{
    double started = kolo_now();
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(sum(replica));
    kolo_timeline_end_with(begun, kolo_replica_span(replica, KOLO_SPAN_REDUCE), "sum gradients", -1,
                           gradient_bytes(replica));
    double seconds = kolo_model_distributed(replica->trainer->model) ? kolo_now() - started : 0;
    replica->timings.communication += seconds;
    replica->timings.exposed += seconds;
    return KOLO_OK;
}

/* Takes the process's sum. If the group of batches is complete, sums it over all ranks. The order of the calls is that
 * of agree_by_allreduce(), which a rank with one replica runs. */
static kolo_status sum_over_ranks(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    kolo_comm *ranks = trainer->ranks;
    kolo_totals *totals = &trainer->sum_totals;
    bool overlaps = kolo_overlap_is_on(trainer);
    if (overlaps) KOLO_TRY(kolo_overlap_finish(replica));
    else {
        KOLO_TRY(kolo_replica_collect(replica));
        KOLO_TRY(kolo_replica_accumulate(replica));
    }
    *totals = replica->local_totals;
    KOLO_TRY(ranks->kind->allreduce(ranks, totals, kolo_totals_size(totals), KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM));
    totals->used = replica->local_totals.used;
    if (!replica->complete || overlaps) return KOLO_OK;
    bool adasum = kolo_replica_uses_adasum(replica);
    return sum_gradients(replica, adasum ? kolo_replica_adasum : kolo_replica_sum_over_ranks);
}

/* Replicas that share the weights insert their gradients into one tree, which leaves one sum per process. */
static kolo_status agree_in_one_tree(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    if (trainer->model->settings.deterministic || replica->group == replica->local) return agree_in_order(replica);
    double started = kolo_now();
    KOLO_TRY(kolo_replica_wait_for_sharers(replica));
    replica->timings.waiting += kolo_now() - started;
    if (replica->index == 0) kolo_replica_set_totals(replica);
    if (replica->index == 0) KOLO_TRY(sum_over_ranks(replica));
    KOLO_TRY(kolo_replica_wait_for_sharers(replica));
    replica->totals = trainer->sum_totals;
    return KOLO_OK;
}

void kolo_replica_set_totals(kolo_replica *replica)
{
    double stops = replica->local_totals.stops, used = replica->local_totals.used;
    replica->local_totals = kolo_reduction_totals(replica->trainer->totals_tree);
    replica->local_totals.loss += replica->local_totals.samples * replica->engine->penalty;
    replica->local_totals.stops = stops;
    replica->local_totals.used = used;
}

/* This is the first collective of a step, so the time in it counts as waiting. Totals that have not been read back are
 * summed later, in kolo_replica_read_totals(). */
static kolo_status sum_totals_of_all(kolo_replica *replica)
{
    kolo_totals *totals = &replica->totals;
    double started = kolo_now();
    if (!replica->has_totals) return KOLO_OK;
    KOLO_TRY(replica->group->kind->allreduce(replica->group, totals, kolo_totals_size(totals), KOLO_TYPE_DOUBLE,
                                             KOLO_REDUCE_SUM));
    totals->used = replica->local_totals.used; /* a number of sums, not a sum */
    replica->timings.waiting += kolo_now() - started;
    return KOLO_OK;
}

static kolo_status agree_by_allreduce(kolo_replica *replica)
{
    if (kolo_overlap_is_on(replica->trainer)) {
        KOLO_TRY(kolo_overlap_finish(replica));
        return sum_totals_of_all(replica);
    }
    KOLO_TRY(kolo_replica_collect(replica));
    KOLO_TRY(sum_totals_of_all(replica));
    KOLO_TRY(kolo_replica_accumulate(replica));
    if (!replica->complete) return KOLO_OK;
    if (kolo_replica_uses_adasum(replica)) return sum_gradients(replica, kolo_replica_adasum_of_copies);
    KOLO_TRY(kolo_replica_join(replica));
    return sum_gradients(replica, kolo_replica_sum_gradient);
}

/* ---------------------------------------------------------------- the number of bytes sent */

/* The bytes that one of N members sends in a reduce-scatter of all weights, and receives in an all-gather. */
static int64_t slice_bytes(const kolo_replica *replica)
{
    return gradient_bytes(replica) * (replica->group->size - 1) / replica->group->size;
}

int64_t kolo_replica_central_bytes(const kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    if (trainer->weight_placement != KOLO_WEIGHTS_CENTRAL) return 0;
    bool away = trainer->parameter_stream || replica->index != trainer->updater;
    return away ? gradient_bytes(replica) : 0;
}

/* ---------------------------------------------------------------- kolo_replica_allreduce, kolo_replica_reduce */

/* Accumulated batches are summed over all members when their group is complete, as with Horovod's
 * backward_passes_per_step. In deterministic mode each batch is summed over all members at once, because the order of
 * additions must not depend on which member computed which microbatch. A replica that is alone in its group sums its
 * nodes in its update. */
kolo_status kolo_replica_allreduce(kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    double started = kolo_now(), waited = replica->timings.waiting;
    bool shares = trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    replica->has_group_sum = true;
    replica->called |= KOLO_CALLED_SUM;
    replica->gradient_on_host = false;
    if (shares) KOLO_TRY(agree_in_one_tree(replica));
    else if (replica->group->size == 1) return KOLO_OK;
    else if (trainer->model->settings.deterministic) KOLO_TRY(agree_in_order(replica));
    else KOLO_TRY(agree_by_allreduce(replica));
    replica->timings.reduce += kolo_now() - started - (replica->timings.waiting - waited);
    bool once = shares && replica->group == replica->local;
    if (replica->complete || once || trainer->model->settings.deterministic)
        replica->timings.reduced_bytes += (once ? 1 : 2) * slice_bytes(replica) - replica->saved_bytes;
    replica->saved_bytes = 0; /* the next step's buckets begin before its call of this function */
    return KOLO_OK;
}

#define PIECE 8192 /* elements that a lane adds at a time */

/* Adds one piece of all replicas' gradients in the order of the replicas, as an all-reduce does: the bits are equal. */
static kolo_status add_piece(void *argument, int lane, int64_t number)
{
    (void)lane;
    kolo_trainer *trainer = argument;
    int64_t first = number * PIECE, end = first + PIECE, count = trainer->model->weight_count;
    void *from[KOLO_DEVICES_MAX];
    for (int i = 0; i < trainer->count; i++) from[i] = trainer->replicas[i].arrays.gradient;
    kolo_sum_slice(KOLO_TYPE_FLOAT, from, trainer->count, from, 1, first, end < count ? end : count);
    return KOLO_OK;
}

/* Adds all replicas' gradients with the threads of the parameter device. */
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
    replica->has_group_sum = true;
    replica->called |= KOLO_CALLED_SUM;
    replica->gradient_on_host = false;
    KOLO_TRY(kolo_replica_collect(replica));
    KOLO_TRY(kolo_replica_accumulate(replica));
    KOLO_TRY(sum_totals_of_all(replica)); /* afterwards all replicas have collected their gradients */
    int64_t begun = kolo_timeline_begin();
    if (replica->complete) KOLO_TRY(add_all(replica));
    kolo_timeline_end_with(begun, kolo_replica_span(replica, KOLO_SPAN_REDUCE), "sum gradients", -1,
                           gradient_bytes(replica));
    replica->timings.reduce += kolo_now() - started - (replica->timings.waiting - waited);
    if (replica->complete) replica->timings.reduced_bytes += kolo_replica_central_bytes(replica);
    return KOLO_OK;
}
