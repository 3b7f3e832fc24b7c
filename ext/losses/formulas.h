/* The list of built-in losses and metrics: for backends that have kernels for them, and for showing a loss or metric as
 * C code. */
#ifndef KOLO_LOSSES_FORMULAS_H
#define KOLO_LOSSES_FORMULAS_H

#include "losses/loss.h"
#include "losses/rows.h"

/* The formula that a kind computes, or KOLO_FORMULA_NONE for a custom kind. It is found by the kind's row(), so a copy
 * of a kind with another row() counts as custom. A metric's kind must be one that kolo_metric_list_make() chose. */
kolo_formula kolo_loss_formula(const kolo_loss_kind *kind);
kolo_formula kolo_metric_formula(const kolo_metric_kind *kind);
/* The constant of kolo.h that stands for a kind: "KOLO_HUBER"; NULL for a custom kind. */
const char *kolo_loss_constant(const kolo_loss_kind *kind);
const char *kolo_metric_constant(const kolo_metric_kind *kind);

#endif
