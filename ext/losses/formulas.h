/* The one list of Kolo's own losses and metrics: for backends that have kernels of their own for them, and for the C
 * that is shown of a compiled model. */
#ifndef KOLO_LOSSES_FORMULAS_H
#define KOLO_LOSSES_FORMULAS_H

#include "losses/loss.h"
#include "losses/rows.h"

/* The formula that a kind computes, or KOLO_FORMULA_NONE for a learner's own. It is found by the kind's row(), so that
 * a copy of a kind with another row() counts as a learner's own. A metric is one that kolo_metric_list_make() chose. */
kolo_formula kolo_loss_formula(const kolo_loss_kind *kind);
kolo_formula kolo_metric_formula(const kolo_metric_kind *kind);
/* The constant of kolo.h that stands for a kind: "KOLO_HUBER"; NULL for a learner's own. */
const char *kolo_loss_constant(const kolo_loss_kind *kind);
const char *kolo_metric_constant(const kolo_metric_kind *kind);

#endif
