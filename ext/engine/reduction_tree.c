/* The reduction tree: see reduction_tree.h. */
#include "engine/reduction_tree.h"
#include "core/grow.h"

#include <pthread.h>
#include <stdlib.h>

struct kolo_reduction {
    int64_t count;
    kolo_reduction_memory memory;
    pthread_mutex_t lock;
    int64_t microbatches;
    kolo_node *nodes; /* the unfinished nodes, in any order */
    int node_count;
    size_t node_room;
    float **spare; /* gradients that were returned, for the next borrower */
    int spare_count, spare_room;
};

kolo_status kolo_reduction_open(int64_t count, kolo_reduction_memory memory, kolo_reduction **reduction)
{
    kolo_reduction *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "the tree of sums");
    made->count = count;
    made->memory = memory;
    pthread_mutex_init(&made->lock, NULL);
    *reduction = made;
    return KOLO_OK;
}

void kolo_reduction_close(kolo_reduction **reduction)
{
    kolo_reduction *closed = *reduction;
    *reduction = NULL;
    if (!closed) return;
    kolo_reduction_begin(closed, 0);
    free(closed->nodes);
    for (int i = 0; i < closed->spare_count; i++) closed->memory.deallocate(closed->memory.owner, closed->spare[i]);
    free(closed->spare);
    pthread_mutex_destroy(&closed->lock);
    free(closed);
}

void kolo_reduction_begin(kolo_reduction *reduction, int64_t microbatches)
{
    for (int i = 0; i < reduction->node_count; i++) kolo_reduction_return(reduction, reduction->nodes[i].gradient);
    reduction->node_count = 0;
    reduction->microbatches = microbatches;
}

kolo_status kolo_reduction_borrow(kolo_reduction *reduction, float **gradient)
{
    *gradient = NULL;
    if (reduction->count == 0) return KOLO_OK;
    pthread_mutex_lock(&reduction->lock);
    if (reduction->spare_count > 0) *gradient = reduction->spare[--reduction->spare_count];
    pthread_mutex_unlock(&reduction->lock);
    if (*gradient) return KOLO_OK;
    size_t bytes = (size_t)reduction->count * sizeof(float);
    *gradient = reduction->memory.allocate(reduction->memory.owner, bytes);
    return *gradient ? KOLO_OK : kolo_fail_memory(bytes, "the gradient of one microbatch");
}

/* If the list of spare gradients cannot grow, the memory is freed. */
void kolo_reduction_return(kolo_reduction *reduction, float *gradient)
{
    if (!gradient) return;
    pthread_mutex_lock(&reduction->lock);
    if (reduction->spare_count == reduction->spare_room) {
        int room = 2 * reduction->spare_room + 8;
        float **grown = realloc(reduction->spare, (size_t)room * sizeof *grown);
        if (grown) {
            reduction->spare = grown;
            reduction->spare_room = room;
        }
    }
    bool kept = reduction->spare_count < reduction->spare_room;
    if (kept) reduction->spare[reduction->spare_count++] = gradient;
    pthread_mutex_unlock(&reduction->lock);
    if (!kept) reduction->memory.deallocate(reduction->memory.owner, gradient);
}

kolo_node kolo_node_promote(kolo_node node, int64_t microbatches)
{
    while (node.index % 2 == 0 && node.index > 0 && (node.index + 1) << node.level >= microbatches) {
        node.index /= 2;
        node.level++;
    }
    return node;
}

bool kolo_node_siblings(const kolo_node *a, const kolo_node *b)
{
    return a->level == b->level && (a->index ^ b->index) == 1;
}

/* Puts a node into the list, whose lock is held. The list grows with the threads that compute at the same time. */
static kolo_status put(kolo_reduction *reduction, const kolo_node *node)
{
    KOLO_TRY(kolo_make_room(&reduction->nodes, &reduction->node_room, (size_t)reduction->node_count + 1, sizeof *node,
                            "the tree of sums"));
    reduction->nodes[reduction->node_count++] = *node;
    return KOLO_OK;
}

/* Takes the node's sibling out of the list. If there is none, puts the node into the list. */
static bool take_sibling(kolo_reduction *reduction, const kolo_node *node, kolo_node *sibling, kolo_status *status)
{
    bool found = false;
    pthread_mutex_lock(&reduction->lock);
    for (int i = 0; i < reduction->node_count && !found; i++) {
        if (!kolo_node_siblings(&reduction->nodes[i], node)) continue;
        *sibling = reduction->nodes[i];
        reduction->nodes[i] = reduction->nodes[--reduction->node_count];
        found = true;
    }
    if (!found) *status = put(reduction, node);
    pthread_mutex_unlock(&reduction->lock);
    return found;
}

/* Computes left + right, always in this order, so that the bits of a NaN are the same, too. */
static kolo_node add_siblings(kolo_reduction *reduction, kolo_node a, kolo_node b, kolo_status *status)
{
    kolo_node left = a.index < b.index ? a : b, right = a.index < b.index ? b : a;
    if (left.gradient) *status = reduction->memory.add(reduction->memory.owner, left.gradient, right.gradient);
    kolo_reduction_return(reduction, right.gradient);
    kolo_totals_add(&left.totals, &right.totals);
    left.level++;
    left.index /= 2;
    return left;
}

kolo_status kolo_reduction_insert(kolo_reduction *reduction, kolo_node node)
{
    kolo_status status = KOLO_OK;
    kolo_node sibling = {0};
    node = kolo_node_promote(node, reduction->microbatches);
    while (status == KOLO_OK && take_sibling(reduction, &node, &sibling, &status))
        node = kolo_node_promote(add_siblings(reduction, node, sibling, &status), reduction->microbatches);
    if (status != KOLO_OK) kolo_reduction_return(reduction, node.gradient);
    return status;
}

static int by_first_microbatch(const void *a, const void *b)
{
    const kolo_node *left = a, *right = b;
    int64_t first = left->index << left->level, second = right->index << right->level;
    return first < second ? -1 : first > second;
}

int kolo_reduction_take(kolo_reduction *reduction, kolo_node *nodes)
{
    pthread_mutex_lock(&reduction->lock);
    int count = reduction->node_count < KOLO_REDUCTION_NODES_MAX ? reduction->node_count : KOLO_REDUCTION_NODES_MAX;
    reduction->node_count -= count;
    for (int i = 0; i < count; i++) nodes[i] = reduction->nodes[reduction->node_count + i];
    pthread_mutex_unlock(&reduction->lock);
    qsort(nodes, (size_t)count, sizeof *nodes, by_first_microbatch);
    return count;
}

kolo_totals kolo_reduction_totals(kolo_reduction *reduction)
{
    kolo_node nodes[KOLO_REDUCTION_NODES_MAX];
    kolo_totals totals = {0};
    int count = kolo_reduction_take(reduction, nodes);
    for (int i = 0; i < count; i++) {
        kolo_totals_add(&totals, &nodes[i].totals);
        kolo_reduction_insert(reduction,
                              nodes[i]); /* it has no sibling here, or insert() would have added them before */
    }
    return totals;
}
