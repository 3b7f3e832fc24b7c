/* The tree of sums: gradients and totals of leaves, added in an order that depends on nothing but their numbers.
 *
 * Floating-point addition is not associative, so the sum of a batch over one device and over eight would differ in the
 * last bits if each added in its own order. Here the order is a binary tree over leaf numbers: node (level, index) is
 * the sum of the leaves index·2^level … (index+1)·2^level − 1, of those that there are. Whoever holds both children
 * adds them; it does not matter who, or when. A device that works through a run of leaves holds a logarithm of
 * unfinished nodes at a time, as a binary counter does.
 */
#ifndef KOLO_ENGINE_FOLD_H
#define KOLO_ENGINE_FOLD_H

#include "core/error.h"
#include "losses/totals.h"

typedef struct kolo_node {
    int level;
    int64_t index;
    float *gradient; /* in the backend's layout; NULL where only totals are summed */
    kolo_totals totals;
} kolo_node;

#define KOLO_FOLD_MOST 160 /* unfinished nodes: two for each level of a tree of 2^63 leaves, and the threads' own */

typedef struct kolo_fold kolo_fold;

/* For gradients of `count` floats, got from and given back with these; count 0: totals only. add(whose, to, from) adds
 * two of them. */
typedef struct kolo_fold_memory {
    void *(*allocate)(const void *whose, size_t bytes);
    void (*deallocate)(const void *whose, void *memory);
    void (*add)(const void *whose, float *to, const float *from);
    const void *whose;
} kolo_fold_memory;
kolo_status kolo_fold_open(int64_t count, kolo_fold_memory memory, kolo_fold **fold);
void kolo_fold_close(kolo_fold **fold); /* takes NULL */
/* From now on it borrows from another of the same kind, which must outlive it, and gives back there: for one whose
 * nodes end up in the other, where their memory would pile up. */
void kolo_fold_borrow_from(kolo_fold *fold, kolo_fold *lender);

/* Forgets all nodes and begins a batch of `leaves` leaves. */
void kolo_fold_begin(kolo_fold *fold, int64_t leaves);
/* Memory for the gradient of one leaf. Any thread. */
kolo_status kolo_fold_borrow(kolo_fold *fold, float **gradient);
/* Takes over a node whose gradient was borrowed (from any fold of the same kind), and adds what can be added. Any
 * thread. */
kolo_status kolo_fold_insert(kolo_fold *fold, kolo_node node);
/* Takes all nodes out, in the order of their leaves; nodes has room for KOLO_FOLD_MOST. */
int kolo_fold_take(kolo_fold *fold, kolo_node *nodes);
/* The sum of the totals of all nodes, in the order of their leaves; they stay. */
kolo_totals kolo_fold_totals(kolo_fold *fold);
/* Gives a gradient back for the next borrower. */
void kolo_fold_return(kolo_fold *fold, float *gradient);

/* The parent of a node in a tree of `leaves` leaves whose sibling does not exist: itself, one level up, as often as
 * that is so. */
kolo_node kolo_node_promote(kolo_node node, int64_t leaves);
/* Whether two nodes are the children of one. */
bool kolo_node_siblings(const kolo_node *a, const kolo_node *b);

#endif
