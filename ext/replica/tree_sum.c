/* Deterministic summation over devices and ranks: see tree_sum.h, and engine/reduction_tree.h for the tree itself.
 *
 * Within a process the replicas insert their unfinished nodes into one tree, which adds siblings. That leaves each rank
 * with the few nodes that cover its run of microbatches. Every rank gets one slice of the nodes of all ranks
 * (all-to-all) and adds these slices in the same tree. At last all ranks collect the slices of the sum (all-gather).
 * This sends as many bytes as a ring all-reduce, times the number of nodes that a rank is left with. That number is one
 * when microbatches and ranks are powers of two.
 */
#include "replica/tree_sum.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

typedef struct offer {
    int nodes; /* the number of the rank's unfinished nodes */
    int stops; /* whether a stop is requested */
} offer;

typedef struct exchange {
    kolo_trainer *trainer;
    float *sum;                  /* [count] on the host, the result */
    kolo_comm *ranks;
    int64_t microbatches;
    int64_t count;               /* the number of weights */
    kolo_node mine[KOLO_REDUCTION_NODES_MAX];
    offer mine_offer;
    offer *offers;               /* [ranks] */
    int all_count, all_stops;
    kolo_node *all;              /* [all_count] nodes of all ranks, in the order of their microbatches */
    float *send, *receive;       /* [ranks][nodes][slice]: to each rank; from each rank */
    size_t *sizes;               /* six lists of [ranks]: bytes and offsets to send, to receive, to gather */
} exchange;

/* The slice that a rank sums: its first element, and the number of its elements. */
static int64_t slice_first(const exchange *x, int member)
{
    return x->count * member / x->ranks->size;
}
static int64_t slice_count(const exchange *x, int member)
{
    return slice_first(x, member + 1) - slice_first(x, member);
}

/* ---------------------------------------------------------------- between ranks */

static kolo_status open_exchange(exchange *x)
{
    int size = x->ranks->size;
    x->offers = calloc((size_t)size, sizeof *x->offers);
    x->sizes = calloc((size_t)size * 6, sizeof *x->sizes);
    bool fine = x->offers && x->sizes;
    if (fine) KOLO_TRY(x->ranks->kind->allgather(x->ranks, &x->mine_offer, sizeof x->mine_offer, x->offers));
    for (int r = 0; fine && r < size; r++) {
        x->all_count += x->offers[r].nodes;
        x->all_stops += x->offers[r].stops;
    }
    size_t mine = (size_t)x->mine_offer.nodes * (size_t)x->count * sizeof(float);
    size_t slices = (size_t)x->all_count * (size_t)slice_count(x, x->ranks->rank) * sizeof(float);
    if (fine) {
        x->all = calloc((size_t)x->all_count + 1, sizeof *x->all);
        x->send = kolo_host_allocate(mine + 1);
        x->receive = kolo_host_allocate(slices + 1);
    }
    fine = fine && x->all && x->send && x->receive;
    return fine ? KOLO_OK : kolo_fail_memory(mine + slices, "summing gradients over ranks");
}

static void close_exchange(exchange *x)
{
    for (int i = 0; i < x->mine_offer.nodes; i++) kolo_reduction_return(x->trainer->tree, x->mine[i].gradient);
    free(x->offers);
    free(x->all);
    free(x->sizes);
    kolo_host_deallocate(x->send);
    kolo_host_deallocate(x->receive);
}

/* All ranks get the list of all nodes with their totals, a few hundred bytes. */
static kolo_status gather_nodes(exchange *x)
{
    size_t *bytes = x->sizes, *offsets = x->sizes + x->ranks->size, offset = 0;
    for (int r = 0; r < x->ranks->size; r++) {
        bytes[r] = (size_t)x->offers[r].nodes * sizeof(kolo_node);
        offsets[r] = offset;
        offset += bytes[r];
    }
    return x->ranks->kind->allgatherv(x->ranks, x->mine, x->all, bytes, offsets);
}

/* A node's gradient is canonical already, unless it is from the tree of replicas that share the weights. */
static kolo_status unpack(const kolo_trainer *trainer, const float *gradient, float *canonical)
{
    if (trainer->weight_placement == KOLO_WEIGHTS_SHARED)
        return kolo_program_unpack(trainer->replicas[0].engine->program, gradient, canonical);
    memcpy(canonical, gradient, (size_t)trainer->model->weight_count * sizeof *canonical);
    return KOLO_OK;
}

/* Unpacks this rank's nodes and cuts them into slices: send[rank][node][slice]. */
static kolo_status cut_slices(exchange *x)
{
    float *canonical = x->sum;
    for (int n = 0; n < x->mine_offer.nodes; n++) {
        KOLO_TRY(unpack(x->trainer, x->mine[n].gradient, canonical));
        for (int r = 0; r < x->ranks->size; r++) {
            int64_t first = slice_first(x, r), length = slice_count(x, r);
            float *target = x->send + (size_t)(first * x->mine_offer.nodes + n * length);
            memcpy(target, canonical + first, (size_t)length * sizeof *target);
        }
    }
    return KOLO_OK;
}

static kolo_status exchange_slices(exchange *x)
{
    int size = x->ranks->size;
    size_t *send_bytes = x->sizes, *send_offsets = send_bytes + size;
    size_t *receive_bytes = send_offsets + size, *receive_offsets = receive_bytes + size, offset = 0;
    size_t slice = (size_t)slice_count(x, x->ranks->rank) * sizeof(float);
    for (int r = 0; r < size; r++) {
        send_bytes[r] = (size_t)(slice_count(x, r) * x->mine_offer.nodes) * sizeof(float);
        send_offsets[r] = (size_t)(slice_first(x, r) * x->mine_offer.nodes) * sizeof(float);
        receive_bytes[r] = (size_t)x->offers[r].nodes * slice;
        receive_offsets[r] = offset;
        offset += receive_bytes[r];
    }
    return x->ranks->kind->alltoallv(x->ranks, x->send, send_bytes, send_offsets, x->receive, receive_bytes,
                                     receive_offsets);
}

static int add_top_siblings(kolo_node *stack, int depth, int64_t slice, int64_t microbatches)
{
    while (depth >= 2 && kolo_node_siblings(&stack[depth - 2], &stack[depth - 1])) {
        kolo_node *left = &stack[depth - 2], *right = &stack[depth - 1];
        if (slice > 0) kolo_host_add(left->gradient, right->gradient, slice);
        kolo_totals_add(&left->totals, &right->totals);
        left->level++;
        left->index /= 2;
        *left = kolo_node_promote(*left, microbatches);
        depth--;
    }
    return depth;
}

/* The nodes are in the order of their microbatches, so two siblings are always the top two of a stack. slice: elements
 * of each node's gradient. */
static kolo_status add_nodes(const kolo_node *nodes, int count, int64_t slice, int64_t microbatches, kolo_node *root)
{
    kolo_node stack[2 * KOLO_REDUCTION_NODES_MAX];
    int depth = 0;
    for (int n = 0; n < count; n++) {
        if (depth == 2 * KOLO_REDUCTION_NODES_MAX)
            return kolo_fail(KOLO_INTERNAL, "more than %d unfinished sums", depth);
        stack[depth++] = kolo_node_promote(nodes[n], microbatches);
        depth = add_top_siblings(stack, depth, slice, microbatches);
    }
    if (depth != 1) return kolo_fail(KOLO_INTERNAL, "a batch's sum left %d nodes, wanted 1", depth);
    *root = stack[0];
    return KOLO_OK;
}

static kolo_status add_slices(exchange *x)
{
    int64_t slice = slice_count(x, x->ranks->rank);
    for (int n = 0; n < x->all_count; n++) x->all[n].gradient = x->receive + n * slice;
    kolo_node root;
    KOLO_TRY(add_nodes(x->all, x->all_count, slice, x->microbatches, &root));
    x->trainer->sum_totals = root.totals;
    x->trainer->sum_totals.stops = x->all_stops;
    memmove(x->receive, root.gradient, (size_t)slice * sizeof(float));
    return KOLO_OK;
}

static kolo_status gather_slices(exchange *x)
{
    size_t *bytes = x->sizes, *offsets = x->sizes + x->ranks->size;
    for (int r = 0; r < x->ranks->size; r++) {
        bytes[r] = (size_t)slice_count(x, r) * sizeof(float);
        offsets[r] = (size_t)slice_first(x, r) * sizeof(float);
    }
    return x->ranks->kind->allgatherv(x->ranks, x->receive, x->sum, bytes, offsets);
}

static kolo_status sum_over_ranks(exchange *x)
{
    kolo_status status;
    KOLO_GO(done, open_exchange(x));
    KOLO_GO(done, gather_nodes(x));
    KOLO_GO(done, cut_slices(x));
    KOLO_GO(done, exchange_slices(x));
    KOLO_GO(done, add_slices(x));
    KOLO_GO(done, gather_slices(x));
done:
    close_exchange(x);
    return status;
}

/* ---------------------------------------------------------------- totals alone */

static kolo_status total_over_ranks(kolo_comm *ranks, const kolo_node *mine, int mine_count, int64_t microbatches,
                                    kolo_node *root)
{
    exchange x = {.ranks = ranks, .mine_offer = {mine_count, 0}};
    memcpy(x.mine, mine, (size_t)mine_count * sizeof *mine);
    kolo_status status;
    KOLO_GO(done, open_exchange(&x));
    KOLO_GO(done, gather_nodes(&x));
    KOLO_GO(done, add_nodes(x.all, x.all_count, 0, microbatches, root));
done:
    x.mine_offer.nodes = 0;
    close_exchange(&x);
    return status;
}

kolo_status kolo_tree_totals(kolo_comm *ranks, kolo_reduction *reduction, int64_t microbatches, kolo_totals *totals)
{
    kolo_node nodes[KOLO_REDUCTION_NODES_MAX], root;
    int count = kolo_reduction_take(reduction, nodes);
    if (ranks->size == 1) KOLO_TRY(add_nodes(nodes, count, 0, microbatches, &root));
    else KOLO_TRY(total_over_ranks(ranks, nodes, count, microbatches, &root));
    *totals = root.totals;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- within the process */

/* Takes the process's nodes with their totals, which are in totals_tree where replicas share the weights. */
static int take_nodes(kolo_trainer *trainer, kolo_node *nodes)
{
    int count = kolo_reduction_take(trainer->tree, nodes);
    if (trainer->weight_placement != KOLO_WEIGHTS_SHARED) return count;
    kolo_node totals[KOLO_REDUCTION_NODES_MAX];
    int taken = kolo_reduction_take(trainer->totals_tree, totals);
    for (int i = 0; i < count && i < taken; i++) nodes[i].totals = totals[i].totals;
    return count;
}

static kolo_status sum_alone(kolo_trainer *trainer, double stops, float *sum)
{
    kolo_node nodes[KOLO_REDUCTION_NODES_MAX];
    int count = take_nodes(trainer, nodes);
    if (count != 1) return kolo_fail(KOLO_INTERNAL, "a batch's sum left %d nodes, wanted 1", count);
    trainer->sum_totals = nodes[0].totals;
    trainer->sum_totals.stops = stops;
    kolo_status status = unpack(trainer, nodes[0].gradient, sum);
    kolo_reduction_return(trainer->tree, nodes[0].gradient);
    return status;
}

static kolo_status sum_for_all(kolo_replica *replica, int64_t microbatches, float *sum)
{
    kolo_trainer *trainer = replica->trainer;
    kolo_comm *ranks = kolo_model_ranks(trainer->model);
    if (ranks->size == 1) return sum_alone(trainer, replica->local_totals.stops, sum);
    exchange x = {.trainer = trainer,
                  .sum = sum,
                  .ranks = ranks,
                  .microbatches = microbatches,
                  .count = trainer->model->weight_count};
    x.mine_offer = (offer){take_nodes(trainer, x.mine), replica->local_totals.stops > 0};
    return sum_over_ranks(&x);
}

/* Unpacks a node's gradient to the host and inserts it into the trainer's tree. */
static kolo_status hand_over_node(kolo_replica *replica, const kolo_gradient_node *from, kolo_node node)
{
    kolo_trainer *trainer = replica->trainer;
    KOLO_TRY(kolo_program_unpack(replica->engine->program, from->gradient, replica->arrays.gradient));
    KOLO_TRY(kolo_replica_fetch_gradient(replica));
    KOLO_TRY(kolo_reduction_borrow(trainer->tree, &node.gradient));
    memcpy(node.gradient, replica->gradient, (size_t)trainer->model->weight_count * sizeof *node.gradient);
    return kolo_reduction_insert(trainer->tree, node);
}

static kolo_status hand_over(kolo_replica *replica)
{
    kolo_gradient_node gradients[KOLO_REDUCTION_NODES_MAX];
    kolo_node totals[KOLO_REDUCTION_NODES_MAX];
    int count;
    if (replica->tree == replica->trainer->tree) return KOLO_OK; /* the engine has inserted them */
    KOLO_TRY(kolo_engine_nodes(replica->engine, gradients, &count));
    int taken = kolo_reduction_take(replica->engine->totals_tree, totals);
    if (taken != count)
        return kolo_fail(KOLO_INTERNAL, "the tree of gradients has %d nodes, that of totals %d", count, taken);
    for (int i = 0; i < count; i++) KOLO_TRY(hand_over_node(replica, &gradients[i], totals[i]));
    return KOLO_OK;
}

kolo_status kolo_tree_sum(kolo_replica *replica)
{
    kolo_trainer *trainer = replica->trainer;
    KOLO_TRY(hand_over(replica));
    replica->collected = true;
    double started = kolo_now();
    KOLO_TRY(kolo_replica_wait(replica));
    replica->timings.waiting += kolo_now() - started;
    bool copies = trainer->weight_placement == KOLO_WEIGHTS_COPIED;
    float *sum = copies ? trainer->sum : replica->gradient;
    if (replica->index == 0 && replica->tree == trainer->tree) kolo_replica_set_totals(replica);
    if (replica->index == 0) KOLO_TRY(sum_for_all(replica, trainer->batch_microbatches, sum));
    KOLO_TRY(kolo_replica_wait(replica));
    if (copies) memcpy(replica->gradient, trainer->sum, (size_t)trainer->model->weight_count * sizeof(float));
    replica->totals = trainer->sum_totals;
    return KOLO_OK;
}
