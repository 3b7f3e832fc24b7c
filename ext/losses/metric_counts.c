/* Metrics that count right and wrong outputs: precision, recall, F1, AUC. They keep counts, which can be added up; the
 * quotients are computed at the end. Read losses/loss.h first. */
#include "core/error.h"
#include "losses/loss.h"
#include "losses/rows.h"
#include "losses/softmax.h"

#include <stdio.h>

/* ------------------------------------------------------------------------------------------ counts of classes */

/* The number of classes: a single output stands for two. */
static int64_t classes_of(int64_t outputs)
{
    return outputs == 1 ? 2 : outputs;
}

#define MOST_CLASSES (1 << 24) /* keeps class_sums() within an int; kolo_metric_list_make() refuses far fewer */

static int class_sums(int64_t outputs, double number)
{
    (void)number;
    int64_t classes = classes_of(outputs);
    return classes > MOST_CLASSES ? KOLO_COUNTS * MOST_CLASSES : (int)(KOLO_COUNTS * classes);
}

static void add_class(double *sums, int64_t class, bool claimed, bool true_one, double weight)
{
    double *counts = sums + KOLO_COUNTS * class;
    if (claimed) counts[KOLO_CLAIMED] += weight;
    if (true_one) counts[KOLO_TRUE] += weight;
    if (claimed && true_one) counts[KOLO_RIGHT] += weight;
}

/* Rows of several outputs that exclude each other: one class is predicted, and one is true. */
static void count_largest(const kolo_row *row, double weight, double *sums)
{
    int64_t claimed = kolo_first_largest(row->outputs, row->count);
    int64_t true_one = row->targets ? kolo_first_largest(row->targets, row->count) : row->label;
    add_class(sums, claimed, true, claimed == true_one, weight);
    if (claimed != true_one) add_class(sums, true_one, false, true, weight);
}

/* Each output is a class that may be there or not. A single output stands for class 1, and its absence for class 0. */
static void count_each(const kolo_row *row, double weight, double *sums)
{
    int64_t first = row->count == 1 ? 1 : 0;
    for (int64_t i = 0; i < row->count; i++)
        add_class(sums, first + i, kolo_is_there(row->outputs[i]), kolo_is_there(row->targets[i]), weight);
    if (row->count == 1) add_class(sums, 0, !kolo_is_there(row->outputs[0]), !kolo_is_there(row->targets[0]), weight);
}

static double quotient(double a, double b)
{
    return b > 0 ? a / b : 0;
}
static double precision_of(const double counts[KOLO_COUNTS])
{
    return quotient(counts[KOLO_RIGHT], counts[KOLO_CLAIMED]);
}
static double recall_of(const double counts[KOLO_COUNTS])
{
    return quotient(counts[KOLO_RIGHT], counts[KOLO_TRUE]);
}
static double f1_of(const double counts[KOLO_COUNTS])
{
    return quotient(2 * counts[KOLO_RIGHT], counts[KOLO_CLAIMED] + counts[KOLO_TRUE]);
}

static double average(double (*of)(const double counts[KOLO_COUNTS]), const double *sums, int64_t outputs,
                      double number)
{
    int64_t classes = classes_of(outputs);
    double whole[KOLO_COUNTS] = {0}, even = 0, weighted = 0;
    for (int64_t c = 0; c < classes; c++) {
        const double *counts = sums + KOLO_COUNTS * c;
        for (int k = 0; k < KOLO_COUNTS; k++) whole[k] += counts[k];
        even += of(counts) / (double)classes;
        weighted += of(counts) * counts[KOLO_TRUE];
    }
    switch ((kolo_average)number) {
    case KOLO_BINARY: return of(sums + KOLO_COUNTS);
    case KOLO_MACRO: return even;
    case KOLO_MICRO: return of(whole);
    case KOLO_WEIGHTED: break;
    }
    return quotient(weighted, whole[KOLO_TRUE]);
}

static double precision(const double *sums, int64_t outputs, double samples, double number)
{
    (void)samples;
    return average(precision_of, sums, outputs, number);
}
static double recall(const double *sums, int64_t outputs, double samples, double number)
{
    (void)samples;
    return average(recall_of, sums, outputs, number);
}
static double f1(const double *sums, int64_t outputs, double samples, double number)
{
    (void)samples;
    return average(f1_of, sums, outputs, number);
}

static kolo_status check_average(int64_t outputs, double number)
{
    bool known = number == KOLO_BINARY || number == KOLO_MACRO || number == KOLO_MICRO || number == KOLO_WEIGHTED;
    if (!known)
        return kolo_fail(KOLO_INVALID, "wanted KOLO_BINARY, KOLO_MACRO, KOLO_MICRO or KOLO_WEIGHTED, got %g", number);
    if (number != KOLO_BINARY || classes_of(outputs) == 2) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "KOLO_BINARY: wanted one or two outputs a row, got %lld: take KOLO_MACRO, KOLO_MICRO or "
                     "KOLO_WEIGHTED",
                     (long long)outputs);
}

static void title_of(const char *name, double number, char title[KOLO_METRIC_NAME])
{
    static const char *const ends[] = {
        [KOLO_BINARY] = "", [KOLO_MACRO] = "_macro", [KOLO_MICRO] = "_micro", [KOLO_WEIGHTED] = "_weighted"};
    snprintf(title, KOLO_METRIC_NAME, "%s%s", name, ends[(int)number]);
}
static void title_precision(double number, char name[KOLO_METRIC_NAME])
{
    title_of("precision", number, name);
}
static void title_recall(double number, char name[KOLO_METRIC_NAME])
{
    title_of("recall", number, name);
}
static void title_f1(double number, char name[KOLO_METRIC_NAME])
{
    title_of("f1_score", number, name);
}

#define OF_CLASSES(name_, value_, title_)                                                                              \
    .name = name_, .sums = class_sums, .check = check_average, .value = value_, .title = title_
#define OF_EACH .wants = KOLO_WANTS_TARGETS, .probabilities = true, .row = count_each
static const kolo_metric_kind precision_of_each = {OF_CLASSES("precision", precision, title_precision), OF_EACH},
                              recall_of_each = {OF_CLASSES("recall", recall, title_recall), OF_EACH},
                              f1_of_each = {OF_CLASSES("f1_score", f1, title_f1), OF_EACH};

static bool each_alone(const kolo_loss_kind *loss, int64_t outputs)
{
    return outputs == 1 || (loss && loss->left_out == KOLO_SIGMOID);
}
static const kolo_metric_kind *choose_precision(const kolo_loss_kind *loss, int64_t outputs)
{
    return each_alone(loss, outputs) ? &precision_of_each : &kolo_precision_kind;
}
static const kolo_metric_kind *choose_recall(const kolo_loss_kind *loss, int64_t outputs)
{
    return each_alone(loss, outputs) ? &recall_of_each : &kolo_recall_kind;
}
static const kolo_metric_kind *choose_f1(const kolo_loss_kind *loss, int64_t outputs)
{
    return each_alone(loss, outputs) ? &f1_of_each : &kolo_f1_kind;
}

const kolo_metric_kind kolo_precision_kind = {OF_CLASSES("precision", precision, title_precision),
                                              .wants = KOLO_WANTS_EITHER, .row = count_largest,
                                              .choose = choose_precision};
const kolo_metric_kind kolo_recall_kind = {OF_CLASSES("recall", recall, title_recall), .wants = KOLO_WANTS_EITHER,
                                           .row = count_largest, .choose = choose_recall};
const kolo_metric_kind kolo_f1_kind = {OF_CLASSES("f1_score", f1, title_f1), .wants = KOLO_WANTS_EITHER,
                                       .row = count_largest, .choose = choose_f1};

/* ------------------------------------------------------------------------------------------ AUC */

static int auc_sums(int64_t outputs, double number)
{
    (void)outputs, (void)number;
    return 2 * KOLO_AUC_BUCKETS;
}

static void auc_row(const kolo_row *row, double weight, double *sums)
{
    for (int64_t i = 0; i < row->count; i++) {
        int bucket = kolo_auc_bucket(row->outputs[i]);
        sums[(kolo_is_there(row->targets[i]) ? KOLO_AUC_BUCKETS : 0) + bucket] += weight;
    }
}

/* The area under the ROC curve. From the highest threshold to the lowest the curve goes from (0, 0) to (1, 1): to the
 * right by the false positives, up by the true positives. */
static double auc(const double *sums, int64_t outputs, double samples, double number)
{
    (void)outputs, (void)samples, (void)number;
    double right = 0, up = 0, area = 0;
    for (int b = KOLO_AUC_BUCKETS - 1; b >= 0; b--) {
        area += sums[b] * (up + sums[KOLO_AUC_BUCKETS + b] / 2);
        right += sums[b];
        up += sums[KOLO_AUC_BUCKETS + b];
    }
    return quotient(area, right * up);
}

const kolo_metric_kind kolo_auc_kind = {
    .name = "auc", .wants = KOLO_WANTS_TARGETS, .probabilities = true, .sums = auc_sums, .row = auc_row, .value = auc};
