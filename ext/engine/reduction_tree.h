/* The tree of sums: gradients and totals of microbatches, added in an order that depends on nothing but their numbers.
 *
 * Floating-point addition is not associative, so the sum of a batch over one device and over eight would differ in the
 * last bits if each added in its own order. Here the order is a binary tree over microbatch numbers: node (level,
 * index) is the sum of the microbatches index·2^level … (index+1)·2^level − 1, of those that there are. Whoever holds
 * both children adds them; it does not matter who, or when. A device that works through a run of microbatches holds a
 * logarithm of unfinished nodes at a time, as a binary counter does.
 */
#ifndef KOLO_ENGINE_REDUCTION_TREE_H
#define KOLO_ENGINE_REDUCTION_TREE_H

#include "core/error.h"
#include "losses/totals.h"

typedef struct kolo_node {
    int level;
    int64_t index;
    float *gradient; /* in the backend's layout; NULL where only totals are summed */
    kolo_totals totals;
} kolo_node;

#define KOLO_REDUCTION_MOST                                                                                            \
    160 /* unfinished nodes: two for each level of a tree of 2^63 microbatches, and the threads' own */

typedef struct kolo_reduction kolo_reduction;

/* For gradients of `count` floats, got from and given back with these; count 0: totals only. add(whose, to, from) adds
 * two of them. */
typedef struct kolo_reduction_memory {
    void *(*allocate)(const void *whose, size_t bytes);
    void (*deallocate)(const void *whose, void *memory);
    kolo_status (*add)(const void *whose, float *to, const float *from);
    const void *whose;
} kolo_reduction_memory;
kolo_status kolo_reduction_open(int64_t count, kolo_reduction_memory memory, kolo_reduction **reduction);
void kolo_reduction_close(kolo_reduction **reduction); /* takes NULL */
/* From now on it borrows from another of the same kind, which must outlive it, and gives back there: for one whose
 * nodes end up in the other, where their memory would pile up. */
void kolo_reduction_borrow_from(kolo_reduction *reduction, kolo_reduction *lender);

/* Forgets all nodes and begins a batch of `microbatches` microbatches. */
void kolo_reduction_begin(kolo_reduction *reduction, int64_t microbatches);
/* Memory for the gradient of one microbatch. Any thread. */
kolo_status kolo_reduction_borrow(kolo_reduction *reduction, float **gradient);
/* Takes over a node whose gradient was borrowed (from any reduction of the same kind), and adds what can be added. Any
 * thread. */
kolo_status kolo_reduction_insert(kolo_reduction *reduction, kolo_node node);
/* Takes all nodes out, in the order of their microbatches; nodes has room for KOLO_REDUCTION_MOST. */
int kolo_reduction_take(kolo_reduction *reduction, kolo_node *nodes);
/* The sum of the totals of all nodes, in the order of their microbatches; they stay. */
kolo_totals kolo_reduction_totals(kolo_reduction *reduction);
/* Gives a gradient back for the next borrower. */
void kolo_reduction_return(kolo_reduction *reduction, float *gradient);

/* The parent of a node in a tree of `microbatches` microbatches whose sibling does not exist: itself, one level up, as
 * often as that is so. */
kolo_node kolo_node_promote(kolo_node node, int64_t microbatches);
/* Whether two nodes are the children of one. */
bool kolo_node_siblings(const kolo_node *a, const kolo_node *b);

#endif
