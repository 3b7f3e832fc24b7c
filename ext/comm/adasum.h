/* Adasum: a sum of gradients that adapts to how much they agree. Maleki et al. 2020, "Scaling Distributed Training with
 * Adaptive Summation" (arXiv 2006.02924), as in Horovod's op = hvd.Adasum:
 *
 *   Adasum(a, b) = (1 − a·b / (2 a·a)) a + (1 − a·b / (2 b·b)) b
 *
 * Orthogonal gradients add up, parallel equal gradients are averaged. A gradient of zeros leaves the other one as it
 * is. Several gradients are combined in pairs, the results in pairs again, and so on: for four ranks Adasum(Adasum(g₀,
 * g₁), Adasum(g₂, g₃)). Horovod wants a power of two of ranks. Here a last one without a partner waits for the next
 * round as it is: for three ranks Adasum(Adasum(g₀, g₁), g₂). */
#ifndef KOLO_COMM_ADASUM_H
#define KOLO_COMM_ADASUM_H

#include "comm/comm.h"

/* A part of the values, which begins where the part before it ends: the gradient of one parameter array has its own
 * products a·b, as in the paper (per layer). */
typedef struct kolo_adasum_part {
    int64_t end; /* the first element behind it */
    bool plain; /* a plain sum */
} kolo_adasum_part;

/* values[parts[count - 1].end] become the Adasum of all members' values, with the same bits on each member. The
 * products are sums in double precision over slices of the values, in the order of the members whose slices they are. A
 * member sends as many bytes as in a ring all-reduce, and three numbers for each part and pair. */
kolo_status kolo_adasum(kolo_comm *comm, float *values, const kolo_adasum_part *parts, int count);

#endif
