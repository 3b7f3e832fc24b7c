/* Adding up slices of several members' arrays: the arithmetic of an all-reduce where members see each other's memory.
 */
#ifndef KOLO_COMM_SUM_H
#define KOLO_COMM_SUM_H

#include "comm/comm.h"

/* Elements of a type in bytes. */
static inline size_t kolo_type_bytes(kolo_type type)
{
    return type == KOLO_TYPE_DOUBLE ? sizeof(double) : sizeof(float);
}

/* Where member `rank`'s slice of count elements begins; it ends where the next one's does. Slices are whole cache
 * lines (of an aligned array), so that no two members write to the same one. */
int64_t kolo_slice_begin(int64_t count, kolo_type type, int rank, int size);

/* s[i] = from[0][i] + from[1][i] + …, in this order, for begin ≤ i < end; then to[t][i] = s[i] for each target, which
 * may be one of the sources. */
void kolo_sum_slice(kolo_type type, void *const *from, int sources, void *const *to, int targets, int64_t begin,
                    int64_t end);

#endif
