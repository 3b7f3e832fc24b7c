/* What losses and metrics are: functions of one row of the model's outputs. A learner's own are the same structs.
 *
 * A row is the last axis of the outputs: a sample of shape {10} has one, a sequence of shape {80, 20000} has 80. The
 * loss of a sample is the mean over its rows, times the sample's weight; that of a batch is the mean over its samples.
 */
#ifndef KOLO_CORE_LOSS_H
#define KOLO_CORE_LOSS_H

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
    KOLO_WANTS_TARGETS,   /* numbers in the shape of the outputs; a label counts as one-hot */
} kolo_wants;

struct kolo_loss_kind {
    const char *name; /* as messages print it: "sparse_crossentropy" */
    kolo_wants wants; /* default KOLO_WANTS_LABEL */
    /* The loss of one row, and d loss / d outputs into gradient[count] unless NULL. */
    double (*row)(const kolo_row *row, float *gradient);
    kolo_activation left_out; /* a last layer's activation that the loss takes over: it gets what goes into it. Default:
                                 none */
};

/* Sums that a metric keeps: over samples of the mean over their rows of what row() adds, so that metrics that are no
 * means (precision, AUC) come of what can be added over leaves, replicas and ranks. */
#define KOLO_METRIC_SUMS_MAX 512

struct kolo_metric_kind {
    const char *name; /* as the progress bar prints it: "accuracy" */
    kolo_wants wants;
    /* How many sums it keeps with that many outputs a row; NULL: one. */
    int (*sums)(int64_t outputs, double number);
    /* Adds a row's part, times weight, to sums. */
    void (*row)(const kolo_row *row, double weight, double *sums);
    /* What is printed. NULL: the first sum over the number of samples. */
    double (*value)(const double *sums, int64_t outputs, double samples, double number);
};

/* Where metric number m of a list begins among the totals' sums; of the first that is not there, how many there are. */
int kolo_metric_offset(const kolo_metric *metrics, int m, int64_t outputs);

#endif
