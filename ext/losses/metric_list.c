/* Makes the list of a model's metrics: checks them and the loss, and chooses kinds, names and places for their sums.
 * See losses/loss.h. */
#include "core/error.h"
#include "losses/loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static kolo_status put_before(kolo_status status, const char *what)
{
    if (status == KOLO_OK) return KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    return kolo_fail(status, "%s: %s", what, failure.text);
}

static kolo_status check_loss(const kolo_loss *loss, int64_t outputs)
{
    const kolo_loss_kind *kind = loss->kind;
    if (!kind) return KOLO_OK;
    if (!kind->name || !kind->row)
        return kolo_fail(KOLO_INVALID, ".loss: wanted a kolo_loss_kind with a name and a row(), got none of the %s",
                         kind->name ? "second" : "first");
    if (loss->smoothed && !kind->smooths)
        return kolo_fail(KOLO_INVALID,
                         ".loss %s: wanted a cross-entropy in KOLO_LABEL_SMOOTHING(), got a loss that cannot be "
                         "smoothed",
                         kind->name);
    const char *what = kolo_phrase(".loss %s", kind->name);
    if (kind->check) KOLO_TRY(put_before(kind->check(outputs, loss->number), what));
    return put_before(kolo_loss_try(loss, outputs), what);
}

/* Whether callbacks and a history's file use the name for something else. */
static bool is_taken(const char *name)
{
    static const char *const taken[] = {"loss",          "seconds", "images", "images_per_second",
                                        "learning_rate", "steps",   "epoch",  NULL};
    int i = 0;
    while (taken[i] && strcmp(taken[i], name) != 0) i++;
    return taken[i] || strncmp(name, "val_", 4) == 0;
}

static kolo_status name_metric(const kolo_metric *given, kolo_metric_list *list, int m)
{
    char *name = list->name[m];
    size_t length = strlen(given->kind->name);
    if (length == 0 || length >= KOLO_METRIC_NAME)
        return kolo_fail(KOLO_INVALID, ".metrics: wanted names of 1 to %d bytes, got \"%.60s\"", KOLO_METRIC_NAME - 1,
                         given->kind->name);
    memcpy(name, given->kind->name, length + 1);
    if (given->kind->title) given->kind->title(given->number, name);
    if (is_taken(name))
        return kolo_fail(KOLO_INVALID, ".metrics: wanted a name that says nothing else yet, got \"%s\"", name);
    for (int other = 0; other < m; other++)
        if (strcmp(list->name[other], name) == 0)
            return kolo_fail(KOLO_INVALID, ".metrics: wanted different ones, got \"%s\" twice", name);
    memcpy(list->val_name[m], "val_", 4);
    memcpy(list->val_name[m] + 4, name, KOLO_METRIC_NAME);
    return KOLO_OK;
}

static kolo_status add_metric(const kolo_loss *loss, const kolo_metric *given, kolo_metric_list *list)
{
    int m = list->count;
    const kolo_metric_kind *kind = given->kind;
    if (!kind->name || !kind->row)
        return kolo_fail(KOLO_INVALID,
                         ".metrics: wanted a kolo_metric_kind with a name and a row(), got none of the %s",
                         kind->name ? "second" : "first");
    if (kind->check)
        KOLO_TRY(put_before(kind->check(list->outputs, given->number), kolo_phrase(".metrics %s", kind->name)));
    KOLO_TRY(name_metric(given, list, m));
    if (kind->choose) kind = kind->choose(loss->kind, list->outputs);
    list->metric[m] = (kolo_metric){kind, given->number};
    list->offset[m] = list->sums;
    list->sums += kind->sums ? kind->sums(list->outputs, given->number) : 1;
    list->targets = list->targets || kind->wants == KOLO_WANTS_TARGETS || kind->wants == 0;
    list->labels = list->labels || kind->wants == KOLO_WANTS_LABEL;
    if (kind->probabilities && loss->kind) list->probabilities = loss->kind->left_out;
    list->count++;
    if (list->sums <= KOLO_METRIC_SUMS_MAX) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     ".metrics: wanted at most %d sums over the samples in all of them together, got %d with \"%s\", "
                     "which keeps %d of %lld outputs",
                     KOLO_METRIC_SUMS_MAX, list->sums, list->name[m], list->sums - list->offset[m],
                     (long long)list->outputs);
}

kolo_status kolo_metric_list_make(const kolo_loss *loss, const kolo_metric *metrics, int64_t outputs,
                                  kolo_metric_list *list)
{
    *list = (kolo_metric_list){.outputs = outputs};
    KOLO_TRY(check_loss(loss, outputs));
    if (loss->kind) list->targets = loss->kind->wants != KOLO_WANTS_LABEL;
    if (loss->kind) list->labels = loss->kind->wants != KOLO_WANTS_TARGETS;
    for (int m = 0; m < KOLO_METRICS_MAX; m++)
        if (metrics[m].kind) KOLO_TRY(add_metric(loss, &metrics[m], list));
    return KOLO_OK;
}

double kolo_metric_value(const kolo_metric_list *list, int m, const double *sums, double samples)
{
    const kolo_metric *metric = &list->metric[m];
    const double *own = sums + list->offset[m];
    if (!(samples > 0)) return NAN;
    return metric->kind->value ? metric->kind->value(own, list->outputs, samples, metric->number) : own[0] / samples;
}
