/* Sums over samples, from which an epoch's loss and metrics are computed. */
#ifndef KOLO_LOSSES_TOTALS_H
#define KOLO_LOSSES_TOTALS_H

#include "losses/loss.h"

typedef struct kolo_totals {
    double samples;
    double stops; /* members that want to stop; summed with the rest, so that all stop at the same step */
    double loss;
    double used; /* elements of sums[] in use; the same in all totals of a model, so it is not added */
    double sums[KOLO_METRIC_SUMS_MAX]; /* the sums of all metrics, in the order of kolo_metric_list */
} kolo_totals;

/* The number of doubles in use, from the beginning of the struct. */
static inline int64_t kolo_totals_size(const kolo_totals *totals)
{
    return (int64_t)(offsetof(kolo_totals, sums) / sizeof(double)) + (int64_t)totals->used;
}

static inline void kolo_totals_add(kolo_totals *to, const kolo_totals *from)
{
    to->samples += from->samples;
    to->stops += from->stops;
    to->loss += from->loss;
    if (from->used > to->used) to->used = from->used;
    for (int i = 0; i < (int)from->used; i++) to->sums[i] += from->sums[i];
}

#endif
