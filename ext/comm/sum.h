/* Sums of slices of several members' arrays, and their other reductions: the arithmetic of an all-reduce between
 * members that share memory. */
#ifndef KOLO_COMM_SUM_H
#define KOLO_COMM_SUM_H

#include "comm/comm.h"

/* The first element of the slice of member `rank`, of `count` elements; the slice ends where the next one begins.
 * Slices are whole cache lines (of an aligned array), so that no two members write to the same cache line. */
int64_t kolo_slice_begin(int64_t count, kolo_type type, int rank, int size);

/* Computes s[i] = from[0][i] + from[1][i] + …, in this order, for begin ≤ i < end, then sets to[t][i] = s[i] for each
 * target; with the minimum, the maximum or the product instead of the sum, as `reduction` says. A mean is a sum here. A
 * target may be one of the sources. Sums and products of integers that exceed the type wrap around. */
void kolo_reduce_slice(kolo_type type, kolo_reduce_op reduction, void *const *from, int sources, void *const *to,
                       int targets, int64_t begin, int64_t end);
/* The same, with a sum. */
void kolo_sum_slice(kolo_type type, void *const *from, int sources, void *const *to, int targets, int64_t begin,
                    int64_t end);

/* The slices of an array for an all-reduce by messages, in which every member receives its own slice from each member,
 * and sends the sum to all. */
typedef struct kolo_slices {
    size_t *bytes, *offsets; /* [size] of the slices in the array */
    size_t *own, *places;    /* [size] of this member's slice in `copies`, once from each member */
    char *copies;            /* each copy is aligned for all types */
} kolo_slices;

/* width: the bytes of an element in messages. The caller calls kolo_slices_close(), also after a failure. */
kolo_status kolo_slices_open(kolo_slices *slices, const kolo_comm *comm, int64_t count, kolo_type type, size_t width);
void kolo_slices_close(kolo_slices *slices);

#endif
