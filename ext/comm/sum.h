/* Sums of slices of several members' arrays: the arithmetic of an all-reduce between members that share memory. */
#ifndef KOLO_COMM_SUM_H
#define KOLO_COMM_SUM_H

#include "comm/comm.h"

/* The first element of the slice of member `rank`, of `count` elements; the slice ends where the next one begins.
 * Slices are whole cache lines (of an aligned array), so that no two members write to the same cache line. */
int64_t kolo_slice_begin(int64_t count, kolo_type type, int rank, int size);

/* Computes s[i] = from[0][i] + from[1][i] + …, in this order, for begin ≤ i < end, then sets to[t][i] = s[i] for each
 * target. A target may be one of the sources. */
void kolo_sum_slice(kolo_type type, void *const *from, int sources, void *const *to, int targets, int64_t begin,
                    int64_t end);

#endif
