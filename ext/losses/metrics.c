/* Metrics that are the fraction of right rows: accuracies and top-k. Read losses/loss.h first. */
#include "core/error.h"
#include "losses/loss.h"
#include "losses/rows.h"
#include "losses/softmax.h"

#include <math.h>
#include <stdio.h>

static int64_t class_of(const kolo_row *row)
{
    return row->targets ? kolo_first_largest(row->targets, row->count) : row->label;
}

static void binary_accuracy(const kolo_row *row, double weight, double *sums)
{
    int64_t right = 0;
    for (int64_t i = 0; i < row->count; i++) right += kolo_is_right(row->outputs[i], row->targets[i]);
    sums[0] += weight * (double)right / (double)row->count;
}

static void categorical_accuracy(const kolo_row *row, double weight, double *sums)
{
    if (kolo_first_largest(row->outputs, row->count) == class_of(row)) sums[0] += weight;
}

static const kolo_metric_kind *choose_accuracy(const kolo_loss_kind *loss, int64_t outputs)
{
    (void)loss;
    return outputs == 1 ? &kolo_binary_accuracy_kind : &kolo_categorical_accuracy_kind;
}

/* ------------------------------------------------------------------------------------------ top k */

static void top_k(const kolo_row *row, double weight, double *sums)
{
    int64_t larger = 0;
    float own = row->outputs[class_of(row)];
    for (int64_t i = 0; i < row->count; i++) larger += row->outputs[i] > own;
    if ((double)larger < row->number && isfinite(own)) sums[0] += weight;
}

static kolo_status check_k(int64_t outputs, double number)
{
    if (number >= 1 && number <= (double)outputs && number == floor(number)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a whole k from 1 to %lld, as many as a row has outputs, got %g",
                     (long long)outputs, number);
}

static void title_k(double number, char name[KOLO_METRIC_NAME])
{
    snprintf(name, KOLO_METRIC_NAME, "top_%.0f_accuracy", number);
}

const kolo_metric_kind kolo_accuracy_kind = {
    .name = "accuracy", .wants = KOLO_WANTS_EITHER, .row = categorical_accuracy, .choose = choose_accuracy};
const kolo_metric_kind kolo_binary_accuracy_kind = {
    .name = "binary_accuracy", .wants = KOLO_WANTS_TARGETS, .probabilities = true, .row = binary_accuracy};
const kolo_metric_kind kolo_categorical_accuracy_kind = {
    .name = "categorical_accuracy", .wants = KOLO_WANTS_EITHER, .row = categorical_accuracy};
const kolo_metric_kind kolo_top_k_kind = {
    .name = "top_k_accuracy", .wants = KOLO_WANTS_EITHER, .row = top_k, .check = check_k, .title = title_k};
