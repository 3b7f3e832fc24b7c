/* Scoring: loss and metrics over a data set, by one process or by all ranks together. */
#ifndef KOLO_CORE_SCORES_H
#define KOLO_CORE_SCORES_H

#include "core/trainer.h"

/* Samples a leaf wherever nothing is learnt. */
#define KOLO_SCORES_LEAF 32

/* Whether the data can go through the model: its shape, and with labels wanted also those. `what` names it in the
 * sentence: "data", "validation_data". A NULL that follows an earlier failure fails without a sentence. */
kolo_status kolo_check_data(const kolo_model *model, const kolo_data *data, bool labels, const char *what);

/* Totals over all samples with the model's weights, dropout off, dealt out among `ranks`, on which the result is the
 * same. *engine is opened when it is NULL; the caller closes it. */
kolo_status kolo_score(kolo_model *model, const kolo_data *data, kolo_comm *ranks, kolo_engine **engine,
                       kolo_totals *totals);

/* The mean of metric `kind` in totals; NaN where the model does not have it. */
double kolo_totals_metric(const kolo_model *model, const kolo_totals *totals, kolo_metric kind);
double kolo_totals_loss(const kolo_totals *totals);

#endif
