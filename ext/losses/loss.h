/* What losses and metrics are: functions of one row of the model's outputs. A learner's own are the same structs.
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
    int label;            /* 0 … count-1, checked before; -1 where the data has none */
    const float *targets; /* [count], or NULL where the data has labels */
    double number;        /* of the kolo_loss or kolo_metric */
} kolo_row;

typedef enum kolo_wants {
    KOLO_WANTS_LABEL = 1, /* a label a row */
    KOLO_WANTS_TARGETS, /* numbers in the shape of the outputs; a label counts as one-hot, with one output as itself */
} kolo_wants;

struct kolo_loss_kind {
    const char *name; /* as messages print it: "sparse_crossentropy" */
    kolo_wants wants; /* default KOLO_WANTS_LABEL */
    /* The loss of one row, and d loss / d outputs into gradient[count] unless NULL. */
    double (*row)(const kolo_row *row, float *gradient);
    kolo_activation left_out; /* a last layer's activation that the loss takes over: it gets what goes into it. Default:
                                 none */
    /* Fails with a sentence if it cannot be computed with that many outputs a row, or with that number. NULL: it can.
     */
    kolo_status (*check)(int64_t outputs, double number);
    bool smooths; /* its number may be KOLO_LABEL_SMOOTHING()'s */
};

/* The check of Kolo's own losses that take no number. */
kolo_status kolo_loss_without_number(int64_t outputs, double number);

/* Sums that a metric keeps: over samples of the mean over their rows of what row() adds, so that metrics that are no
 * means (precision, AUC) come of what can be added over microbatches, replicas and ranks. */
#define KOLO_METRIC_SUMS_MAX 1024

struct kolo_metric_kind {
    const char *name; /* as the progress bar prints it: "accuracy"; at most KOLO_METRIC_NAME-1 bytes */
    kolo_wants wants; /* default: what the loss wants */
    bool probabilities; /* outputs are what the loss's left_out makes of them: KOLO_SOFTMAX, KOLO_SIGMOID */
    /* How many sums it keeps with that many outputs a row; NULL: one. */
    int (*sums)(int64_t outputs, double number);
    /* Adds a row's part, times weight, to sums. */
    void (*row)(const kolo_row *row, double weight, double *sums);
    /* What is printed. NULL: the first sum over the number of samples. */
    double (*value)(const double *sums, int64_t outputs, double samples, double number);
    kolo_status (*check)(int64_t outputs, double number); /* as of a loss */
    /* The kind that does the work beside that loss, which keeps this one's name; NULL: itself. */
    const kolo_metric_kind *(*choose)(const kolo_loss_kind *loss, int64_t outputs);
    /* Writes the name that it has with that number; NULL: `name`. */
    void (*title)(double number, char name[KOLO_METRIC_NAME]);
};

/* The metrics of a compiled model: chosen for its loss, named, and placed among the sums of kolo_totals. */
typedef struct kolo_metric_list {
    int count;
    kolo_metric metric[KOLO_METRICS_MAX];
    char name[KOLO_METRICS_MAX][KOLO_METRIC_NAME];
    char val_name[KOLO_METRICS_MAX][KOLO_METRIC_NAME + 4]; /* the same behind "val_" */
    int offset[KOLO_METRICS_MAX]; /* of the first sum of each */
    int sums; /* of all of them */
    int64_t outputs; /* of a row */
    bool labels, targets; /* what the loss and they are to be given */
    kolo_activation probabilities; /* that some of them want applied to a row first; 0: none */
} kolo_metric_list;

/* Fails with a sentence if the loss (kind NULL: none) or a metric does not fit that many outputs a row. */
kolo_status kolo_metric_list_make(const kolo_loss *loss, const kolo_metric *metrics, int64_t outputs,
                                  kolo_metric_list *list);
/* Value of metric m; NaN where nothing was counted. */
double kolo_metric_value(const kolo_metric_list *list, int m, const double *sums, double samples);

#endif
