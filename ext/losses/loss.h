/* The interfaces of losses and metrics: functions of one row of the model's outputs. Custom ones are the same structs.
 *
 * A row is the last axis of the outputs: a sample of shape {10} has one, a sequence of shape {80, 20000} has 80. The
 * loss of a sample is the mean over its rows, times the sample's weight; that of a batch is the mean over its samples.
 */
#ifndef KOLO_LOSSES_LOSS_H
#define KOLO_LOSSES_LOSS_H

#include <kolo.h>

typedef struct kolo_row {
    const float *outputs; /* [count] */
    int64_t count;
    int label;            /* 0 … count-1, already checked; -1: the data has none, or nothing wants it */
    const float *targets; /* [count]; NULL: neither the loss nor a metric wants them */
    double number;        /* the number of the kolo_loss or kolo_metric */
} kolo_row;

typedef enum kolo_wants {
    KOLO_WANTS_LABEL = 1, /* one label for each row */
    KOLO_WANTS_TARGETS, /* numbers in the shape of the outputs; a label becomes one-hot, or with one output a number */
    KOLO_WANTS_EITHER /* of a metric: what the loss wants. row() looks at the targets if there are any, or else at the
                         label, or at neither */
} kolo_wants;

struct kolo_loss_kind {
    const char *name; /* as messages print it: "sparse_crossentropy" */
    kolo_wants wants; /* 0 means a label, and that the row has targets, too: row() may read them */
    /* The loss of one row, and d loss / d outputs into gradient[count] unless NULL. */
    double (*row)(const kolo_row *row, float *gradient);
    kolo_activation left_out; /* the activation that the loss computes itself: where the last layer has it, the model
                                 leaves it out, and row() gets the activation's inputs. Default: none */
    /* Fails with a message if the loss does not support that many outputs a row, or that number. NULL: it supports all.
     */
    kolo_status (*check)(int64_t outputs, double number);
    bool smooths; /* it supports KOLO_LABEL_SMOOTHING(), whose α is then its number */
};

/* The check() of built-in losses that take no number. */
kolo_status kolo_loss_without_number(int64_t outputs, double number);

/* A metric keeps sums, to which row() adds; a sample counts with the mean over its rows. Sums are added over
 * microbatches, replicas and ranks. Metrics that are not means (precision, AUC) are computed from the total sums at the
 * end. All metrics of a model together keep at most KOLO_METRIC_SUMS_MAX sums. */
struct kolo_metric_kind {
    const char *name; /* as the progress bar prints it: "accuracy"; at most KOLO_METRIC_NAME-1 bytes */
    kolo_wants wants; /* 0: the same as the loss, and that the row has targets in any case: row() may read them */
    bool probabilities; /* row() gets the outputs after the loss's left_out (KOLO_SOFTMAX, KOLO_SIGMOID) was applied */
    /* The number of sums that it keeps with that many outputs a row. NULL: one. */
    int (*sums)(int64_t outputs, double number);
    /* Adds a row's contribution, times weight, to the sums. */
    void (*row)(const kolo_row *row, double weight, double *sums);
    /* The value that is printed. NULL: the first sum divided by the number of samples. */
    double (*value)(const double *sums, int64_t outputs, double samples, double number);
    kolo_status (*check)(int64_t outputs, double number); /* as that of a loss */
    /* Returns the kind that computes this metric for that loss. The name stays this one's. NULL: this kind. */
    const kolo_metric_kind *(*choose)(const kolo_loss_kind *loss, int64_t outputs);
    /* Writes the metric's name with that number. NULL: it is `name`. */
    void (*title)(double number, char name[KOLO_METRIC_NAME]);
};

/* The metrics of a compiled model: the kinds chosen for its loss, their names, and their places in kolo_totals.sums. */
typedef struct kolo_metric_list {
    int count;
    kolo_metric metric[KOLO_METRICS_MAX];
    char name[KOLO_METRICS_MAX][KOLO_METRIC_NAME];
    char val_name[KOLO_METRICS_MAX][KOLO_METRIC_NAME + 4]; /* "val_" and the name */
    int offset[KOLO_METRICS_MAX]; /* the index of each metric's first sum */
    int sums; /* the number of sums of all metrics */
    int64_t outputs; /* outputs of a row */
    bool labels, targets; /* which of these the loss and the metrics read */
    kolo_activation probabilities; /* the activation to apply to a row before metrics with .probabilities; 0: none */
} kolo_metric_list;

/* try_loss.c. Computes the loss of one row. Fails with a message if row() does not write the gradient, or if
 * kolo_mean_part() lacks the formula of one of Kolo's own. */
kolo_status kolo_loss_try(const kolo_loss *loss, int64_t outputs);
/* Fails with a message if the loss (kind NULL: none) or a metric does not support that many outputs a row. */
kolo_status kolo_metric_list_make(const kolo_loss *loss, const kolo_metric *metrics, int64_t outputs,
                                  kolo_metric_list *list);
/* The value of metric m; NaN if there were no samples. */
double kolo_metric_value(const kolo_metric_list *list, int m, const double *sums, double samples);

#endif
