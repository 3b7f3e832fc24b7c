/* Which of Kolo's own losses and metrics a kind computes, for backends with kernels of their own for them. */
#ifndef KOLO_LOSSES_FORMULAS_H
#define KOLO_LOSSES_FORMULAS_H

#include "losses/loss.h"
#include "losses/rows.h"

/* By what their row() is, so that a changed copy of a kind counts as a learner's own. Metrics: as chosen for the loss
 * (kolo_metric_list). */
kolo_formula kolo_loss_formula(const kolo_loss_kind *kind);
kolo_formula kolo_metric_formula(const kolo_metric_kind *kind);

#endif
