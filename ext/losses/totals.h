/* Sums over samples: what becomes an epoch's loss and metrics. */
#ifndef KOLO_LOSSES_TOTALS_H
#define KOLO_LOSSES_TOTALS_H

#include "losses/loss.h"

typedef struct kolo_totals {
    double samples;
    double stops; /* members that wish to stop: summed with the rest, so that all stop at the same step */
    double loss;
    double used; /* of sums: the same in all totals of a model, so it is not added */
    double sums[KOLO_METRIC_SUMS_MAX]; /* the metrics', one behind the other: kolo_metric_list */
} kolo_totals;

/* Doubles of a totals that matter, from its beginning. */
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
