/* Scoring: loss and metrics over a data set, by one process or by all ranks together. */
#ifndef KOLO_TRAINING_SCORES_H
#define KOLO_TRAINING_SCORES_H

#include "replica/trainer.h"
#include "show/show.h"

/* Whether the data can go through the model: its shape, and with targets also what the loss and the metrics want.
 * `what` names it in the
 * sentence: "data", "validation_data". A NULL that follows an earlier failure fails without a sentence. */
kolo_status kolo_check_data(const kolo_model *model, const kolo_data *data, bool targets, const char *what);

/* Totals over `samples` samples from number `first` on with the model's weights, dropout off, dealt out among `ranks`,
 * on which the result is the same. */
kolo_status kolo_score(kolo_model *model, const kolo_data *data, int64_t first, int64_t samples, kolo_comm *ranks,
                       kolo_totals *totals);

/* The engines that a model keeps for scores and outputs; made when they are first wanted. */
void kolo_close_scorers(kolo_model *model);
/* Whether samples first … first+samples-1 are the data's. */
kolo_status kolo_check_range(const kolo_data *data, int64_t first, int64_t samples);

/* Loss and metrics of those totals (NULL or of no sample: NaN). A NULL model has no metrics. */
kolo_scores kolo_scores_of(const kolo_model *model, const kolo_totals *totals);

/* The metrics of scores and then their loss, as Keras orders them, into measures[KOLO_METRICS_MAX + 1]; how many. Names
 * are the model's. */
int kolo_measures_of(const kolo_model *model, const kolo_scores *scores, bool validation, kolo_measure *measures);

/* The number of a name among `count`; -1: none. */
int kolo_metric_find(const char names[KOLO_METRICS_MAX][KOLO_METRIC_NAME], int count, const char *name);

#endif
