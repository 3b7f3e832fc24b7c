/* The tree of sums: see fold.h. */
#include "engine/fold.h"

#include <pthread.h>
#include <stdlib.h>

struct kolo_fold {
    int64_t count;
    kolo_fold_memory memory;
    pthread_mutex_t lock;
    int64_t leaves;
    kolo_node nodes[KOLO_FOLD_MOST]; /* unfinished, in no order */
    int node_count;
    kolo_fold *lender; /* whose spare ones it uses; NULL: its own */
    float **spare; /* gradients nobody uses */
    int spare_count, spare_room;
};

kolo_status kolo_fold_open(int64_t count, kolo_fold_memory memory, kolo_fold **fold)
{
    kolo_fold *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "the tree of sums");
    made->count = count;
    made->memory = memory;
    pthread_mutex_init(&made->lock, NULL);
    *fold = made;
    return KOLO_OK;
}

void kolo_fold_close(kolo_fold **fold)
{
    kolo_fold *closed = *fold;
    *fold = NULL;
    if (!closed) return;
    kolo_fold_begin(closed, 0);
    for (int i = 0; i < closed->spare_count; i++) closed->memory.deallocate(closed->memory.whose, closed->spare[i]);
    free(closed->spare);
    pthread_mutex_destroy(&closed->lock);
    free(closed);
}

void kolo_fold_borrow_from(kolo_fold *fold, kolo_fold *lender)
{
    fold->lender = lender;
}

void kolo_fold_begin(kolo_fold *fold, int64_t leaves)
{
    kolo_node nodes[KOLO_FOLD_MOST];
    int count = kolo_fold_take(fold, nodes);
    for (int i = 0; i < count; i++) kolo_fold_return(fold, nodes[i].gradient);
    fold->leaves = leaves;
}

kolo_status kolo_fold_borrow(kolo_fold *fold, float **gradient)
{
    *gradient = NULL;
    if (fold->lender) fold = fold->lender;
    if (fold->count == 0) return KOLO_OK;
    pthread_mutex_lock(&fold->lock);
    if (fold->spare_count > 0) *gradient = fold->spare[--fold->spare_count];
    pthread_mutex_unlock(&fold->lock);
    if (*gradient) return KOLO_OK;
    size_t bytes = (size_t)fold->count * sizeof(float);
    *gradient = fold->memory.allocate(fold->memory.whose, bytes);
    return *gradient ? KOLO_OK : kolo_fail_memory(bytes, "the gradient of one leaf");
}

/* Where the list of spares cannot grow, the memory goes back to the system instead. */
void kolo_fold_return(kolo_fold *fold, float *gradient)
{
    if (!gradient) return;
    if (fold->lender) fold = fold->lender;
    pthread_mutex_lock(&fold->lock);
    if (fold->spare_count == fold->spare_room) {
        int room = 2 * fold->spare_room + 8;
        float **grown = realloc(fold->spare, (size_t)room * sizeof *grown);
        if (grown) {
            fold->spare = grown;
            fold->spare_room = room;
        }
    }
    bool kept = fold->spare_count < fold->spare_room;
    if (kept) fold->spare[fold->spare_count++] = gradient;
    pthread_mutex_unlock(&fold->lock);
    if (!kept) fold->memory.deallocate(fold->memory.whose, gradient);
}

kolo_node kolo_node_promote(kolo_node node, int64_t leaves)
{
    while (node.index % 2 == 0 && node.index > 0 && (node.index + 1) << node.level >= leaves) {
        node.index /= 2;
        node.level++;
    }
    return node;
}

bool kolo_node_siblings(const kolo_node *a, const kolo_node *b)
{
    return a->level == b->level && (a->index ^ b->index) == 1;
}

/* Takes the node's sibling out of the list, or puts the node in. */
static bool take_sibling(kolo_fold *fold, const kolo_node *node, kolo_node *sibling, kolo_status *status)
{
    bool found = false;
    pthread_mutex_lock(&fold->lock);
    for (int i = 0; i < fold->node_count && !found; i++) {
        if (!kolo_node_siblings(&fold->nodes[i], node)) continue;
        *sibling = fold->nodes[i];
        fold->nodes[i] = fold->nodes[--fold->node_count];
        found = true;
    }
    if (!found && fold->node_count < KOLO_FOLD_MOST) fold->nodes[fold->node_count++] = *node;
    else if (!found) *status = kolo_fail(KOLO_INTERNAL, "more than %d unfinished sums", KOLO_FOLD_MOST);
    pthread_mutex_unlock(&fold->lock);
    return found;
}

/* left + right, always in this order, so that a NaN's bits are the same too. */
static kolo_node add_siblings(kolo_fold *fold, kolo_node a, kolo_node b)
{
    kolo_node left = a.index < b.index ? a : b, right = a.index < b.index ? b : a;
    if (left.gradient) fold->memory.add(fold->memory.whose, left.gradient, right.gradient);
    kolo_fold_return(fold, right.gradient);
    kolo_totals_add(&left.totals, &right.totals);
    left.level++;
    left.index /= 2;
    return left;
}

kolo_status kolo_fold_insert(kolo_fold *fold, kolo_node node)
{
    kolo_status status = KOLO_OK;
    kolo_node sibling = {0};
    node = kolo_node_promote(node, fold->leaves);
    while (take_sibling(fold, &node, &sibling, &status))
        node = kolo_node_promote(add_siblings(fold, node, sibling), fold->leaves);
    return status;
}

static int by_first_leaf(const void *a, const void *b)
{
    const kolo_node *left = a, *right = b;
    int64_t first = left->index << left->level, second = right->index << right->level;
    return first < second ? -1 : first > second;
}

int kolo_fold_take(kolo_fold *fold, kolo_node *nodes)
{
    pthread_mutex_lock(&fold->lock);
    int count = fold->node_count;
    for (int i = 0; i < count; i++) nodes[i] = fold->nodes[i];
    fold->node_count = 0;
    pthread_mutex_unlock(&fold->lock);
    qsort(nodes, (size_t)count, sizeof *nodes, by_first_leaf);
    return count;
}

kolo_totals kolo_fold_totals(kolo_fold *fold)
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
