/* Computes the loss and the metrics of totals. See scores.h. */
#include "training/scores.h"

#include <math.h>
#include <string.h>

kolo_scores kolo_scores_of(const kolo_model *model, const kolo_totals *totals)
{
    kolo_scores scores = {.loss = NAN, .accuracy = NAN};
    for (int m = 0; m < KOLO_METRICS_MAX; m++) scores.metric[m] = NAN;
    if (!model) return scores;
    const kolo_metric_list *list = &model->metrics;
    scores.samples = totals ? (int64_t)totals->samples : 0;
    scores.metrics = list->count;
    memcpy(scores.metric_name, list->name, sizeof scores.metric_name);
    if (!totals || scores.samples == 0) return scores;
    scores.loss = totals->loss / totals->samples;
    for (int m = 0; m < list->count; m++) scores.metric[m] = kolo_metric_value(list, m, totals->sums, totals->samples);
    scores.accuracy = kolo_scores_get(&scores, "accuracy");
    return scores;
}

int kolo_metric_find(const char names[KOLO_METRICS_MAX][KOLO_METRIC_NAME], int count, const char *name)
{
    for (int m = 0; m < count; m++)
        if (strcmp(names[m], name) == 0) return m;
    return -1;
}

double kolo_scores_get(const kolo_scores *scores, const char *name)
{
    if (!scores || !name) return NAN;
    if (strcmp(name, "loss") == 0) return scores->loss;
    int m = kolo_metric_find(scores->metric_name, scores->metrics, name);
    return m < 0 ? NAN : scores->metric[m];
}

int kolo_measures_of(const kolo_model *model, const kolo_scores *scores, bool validation, kolo_measure *measures)
{
    const kolo_metric_list *list = &model->metrics;
    int count = 0;
    for (; count < list->count; count++)
        measures[count] = (kolo_measure){validation ? list->val_name[count] : list->name[count], scores->metric[count]};
    measures[count] = (kolo_measure){validation ? "val_loss" : "loss", scores->loss};
    return count + 1;
}
