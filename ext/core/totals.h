/* Sums over samples: what becomes an epoch's loss and accuracy. */
#ifndef KOLO_CORE_TOTALS_H
#define KOLO_CORE_TOTALS_H

#include <kolo.h>

typedef struct kolo_totals {
    double samples;
    double stops; /* members that wish to stop: summed with the rest, so that all stop at the same step */
    double loss;
    double metrics[KOLO_METRICS_MAX];
} kolo_totals;

static inline void kolo_totals_add(kolo_totals *to, const kolo_totals *from)
{
    to->samples += from->samples;
    to->stops += from->stops;
    to->loss += from->loss;
    for (int i = 0; i < KOLO_METRICS_MAX; i++) to->metrics[i] += from->metrics[i];
}

#endif
