/* The reduction tree: adds gradients and totals of microbatches in an order that depends only on their numbers.
 *
 * Floating-point addition is not associative, so the sum of a batch over one device and over eight would differ in the
 * last bits if each added in its own order. Here the order is a binary tree over microbatch numbers: node (level,
 * index) is the sum of the existing microbatches among index·2^level … (index+1)·2^level − 1. Any device or rank that
 * has both children may add them, at any time. A device that computes n consecutive microbatches has about log2(n)
 * unfinished nodes at a time: one for each one bit of n, if it begins with microbatch 0.
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

/* The nodes of consecutive microbatches that are all computed: at most two for each level of a tree of 2^63. While they
 * are being computed, there can be one more for each thread. */
#define KOLO_REDUCTION_NODES_MAX 128

typedef struct kolo_reduction kolo_reduction;

/* The functions that allocate, free and add (to += from) gradients. */
typedef struct kolo_reduction_memory {
    void *(*allocate)(const void *owner, size_t bytes);
    void (*deallocate)(const void *owner, void *memory);
    kolo_status (*add)(const void *owner, float *to, const float *from);
    const void *owner;
} kolo_reduction_memory;
/* Opens a tree of gradients of `count` floats. count 0: of totals only. */
kolo_status kolo_reduction_open(int64_t count, kolo_reduction_memory memory, kolo_reduction **reduction);
void kolo_reduction_close(kolo_reduction **reduction); /* takes NULL */

/* Drops all nodes and begins a batch of `microbatches` microbatches. */
void kolo_reduction_begin(kolo_reduction *reduction, int64_t microbatches);
/* Lends memory for the gradient of one microbatch; NULL if there are only totals. Any thread may call it. */
kolo_status kolo_reduction_borrow(kolo_reduction *reduction, float **gradient);
/* Takes over a node, whose gradient was borrowed from a tree with the same memory, and adds siblings as far as
 * possible. Any thread may call it. */
kolo_status kolo_reduction_insert(kolo_reduction *reduction, kolo_node node);
/* Takes all nodes out, in the order of their microbatches, and returns their number. `nodes` has room for
 * KOLO_REDUCTION_NODES_MAX; after a batch that has failed, more than these stay until kolo_reduction_begin(). */
int kolo_reduction_take(kolo_reduction *reduction, kolo_node *nodes);
/* The sum of the totals of all nodes, in the order of their microbatches. The nodes stay. */
kolo_totals kolo_reduction_totals(kolo_reduction *reduction);
/* Gives borrowed memory back, for the next borrower. Takes NULL. */
void kolo_reduction_return(kolo_reduction *reduction, float *gradient);

/* A node without a sibling in a tree of `microbatches` microbatches is its own parent: returns it at the highest level
 * that it reaches in this way. */
kolo_node kolo_node_promote(kolo_node node, int64_t microbatches);
/* Whether two nodes are the children of one node. */
bool kolo_node_siblings(const kolo_node *a, const kolo_node *b);

#endif
