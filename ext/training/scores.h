/* Scoring: loss and metrics over a data set, by one process or by all ranks together. */
#ifndef KOLO_TRAINING_SCORES_H
#define KOLO_TRAINING_SCORES_H

#include "replica/trainer.h"
#include "show/show.h"

/* Fails if the data does not match the model: its shape, and with `targets` also the labels or targets that the loss
 * and the metrics need. `what` names the data in the message: "data", ".validation_data". NULL after an earlier failure
 * fails without a message. */
kolo_status kolo_check_data(const kolo_model *model, const kolo_data *data, bool targets, const char *what);

/* Scores samples first … first+samples-1 with the model's weights and without dropout. `ranks` divide the samples among
 * them, and all of them get the same totals. */
kolo_status kolo_score(kolo_model *model, const kolo_data *data, int64_t first, int64_t samples, kolo_comm *ranks,
                       kolo_totals *totals);

/* Closes the engines that the model keeps for scores and outputs. The next score or prediction opens one again. */
void kolo_close_scorers(kolo_model *model);
/* Fails unless the data has samples first … first+samples-1. */
kolo_status kolo_check_range(const kolo_data *data, int64_t first, int64_t samples);

/* The loss and the metrics of these totals. Totals that are NULL or of no sample give NaN; a NULL model has no metrics.
 */
kolo_scores kolo_scores_of(const kolo_model *model, const kolo_totals *totals);

/* Writes the metrics and then the loss, which is Keras's order, to measures[KOLO_METRICS_MAX + 1], and returns their
 * number. With `validation` their names begin with "val_". The names belong to the model. */
int kolo_measures_of(const kolo_model *model, const kolo_scores *scores, bool validation, kolo_measure *measures);

/* The index of `name` in names[count]; -1: it is not there. */
int kolo_metric_find(const char names[KOLO_METRICS_MAX][KOLO_METRIC_NAME], int count, const char *name);

#endif
