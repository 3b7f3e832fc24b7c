/* Section 8 of kolo.h: callbacks, hooks into training. Included by kolo_training.h: read that first.
 *
 *     kolo_fit(model, train, .epochs = 50, .validation_data = test,
 *              .callbacks = {kolo_early_stopping(.patience = 3), kolo_csv_logger("log.csv")});
 *
 * With Keras's names, defaults and semantics. One of your own is a kolo_callback with the hooks that you want. The
 * hooks of any of them can be called from a loop of your own, too: set .model, call .on_train_begin with what will be
 * measured, then the others, each with a kolo_logs that you filled in, and last .on_train_end.
 *
 * A callback is a value: it can be used again, and what it keeps while training is gone after it. Texts in it must live
 * as long as the training. Of ranks that train together each has the callbacks, and rank 0 alone writes and prints. */
#ifndef KOLO_CALLBACKS_H
#define KOLO_CALLBACKS_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------------- 8 callbacks */

#define KOLO_LOGS_MAX (2 * KOLO_METRICS_MAX + 12)

/* What is known when a hook is called. Of kolo_fit: "loss", the metrics, the same behind "val_" with validation data,
 * "seconds", "images", "images_per_second", "learning_rate", "steps". At a batch's end all of
 * them are the epoch's so far. */
typedef struct kolo_logs {
    int count;
    const char *names[KOLO_LOGS_MAX];
    double values[KOLO_LOGS_MAX];
    double agreed[KOLO_LOGS_MAX]; /* what decisions are made on: the same on all ranks, where values are a rank's own */
} kolo_logs;

/* The value of that name; NaN where there is none. */
double kolo_logs_get(const kolo_logs *logs, const char *name);
/* For a loop of your own: kolo_logs logs = {0}; kolo_logs_set(&logs, "loss", 0.5). The name must outlive the logs. */
void kolo_logs_set(kolo_logs *logs, const char *name, double value);

void kolo_stop_training(kolo_model *model); /* ends the fit after this step, on every rank */
/* Whether that was called since the last fit or kolo_train_on_batch() began. */
bool kolo_training_stopped(const kolo_model *model);
/* From the next step on; at least 0. Fails where the optimizer has a .schedule, and changes nothing then. */
#define kolo_set_learning_rate(model, learning_rate) kolo_set_learning_rate_at((model), (learning_rate), KOLO_HERE)
kolo_status kolo_set_learning_rate_at(kolo_model *model, double learning_rate, kolo_here here);
double kolo_get_learning_rate(const kolo_model *model); /* of the last step, or of the first before it */

/* Which way a monitored number is better. Default: up for accuracies, precision, recall, F1 and AUC, else down. */
typedef enum kolo_mode { KOLO_MIN = 1, KOLO_MAX } kolo_mode;

typedef struct kolo_model_checkpoint_args {
    const char *_;
    const char *path; /* may hold {epoch}, {batch} (both from 1) and {NAME} of logs, as {epoch:02d}, {val_loss:.2f} */
    kolo_guard *guard;
    const char *monitor; /* default "val_loss" */
    kolo_mode mode;
    bool save_best_only; /* only when the monitored number is better than ever before */
    bool save_weights_only; /* kolo_save(); default: kolo_checkpoint_save(), layers and optimizer too */
    int save_freq; /* batches; default: after each epoch */
    double initial_value_threshold; /* what the first must be better than; default: nothing */
    int verbose; /* 1: says what it does */
} kolo_model_checkpoint_args;

typedef struct kolo_early_stopping_args {
    const char *_;
    kolo_guard *guard;
    const char *monitor; /* default "val_loss" */
    double min_delta; /* a change of no more than this is no improvement; default 0 */
    int patience; /* epochs without improvement that are borne; default 0 */
    kolo_mode mode;
    double baseline; /* that must be passed, too; default: none */
    bool restore_best_weights; /* at the end of training those of the best epoch, of all where it was resumed; checkpoints
                                  hold them then. Default: those of the last */
    int start_from_epoch; /* epochs before it, from 0, do not count */
    int verbose;
} kolo_early_stopping_args;

typedef struct kolo_reduce_lr_on_plateau_args {
    const char *_;
    kolo_guard *guard;
    const char *monitor; /* default "val_loss" */
    double factor; /* times the learning rate; below 1, default 0.1 */
    int patience; /* default 10 */
    kolo_mode mode;
    double min_delta; /* default 1e-4 */
    int cooldown; /* epochs after a reduction that do not count; default 0 */
    double min_lr; /* default 0 */
    int verbose;
} kolo_reduce_lr_on_plateau_args;

typedef struct kolo_learning_rate_scheduler_args {
    const char *_;
    double (*schedule)(int epoch,
                       double learning_rate); /* the rate of epoch number `epoch`, from 0, from the one before */
    kolo_guard *guard;
    kolo_schedule by_epoch; /* instead: of kolo_schedules.h, its steps counted as epochs */
    int verbose;
} kolo_learning_rate_scheduler_args;

/* Horovod's LearningRateWarmupCallback, without its correction of momenta (Goyal et al. 2017). */
typedef struct kolo_learning_rate_warmup_args {
    const char *_;
    double initial_lr; /* what it warms up to: the rate for all devices together; required */
    kolo_guard *guard;
    int warmup_epochs; /* default 5 */
    int steps_per_epoch; /* default: kolo_fit's */
    int size; /* begins at initial_lr / size; default: devices of all ranks */
    int verbose;
} kolo_learning_rate_warmup_args;

typedef struct kolo_csv_logger_args {
    const char *_;
    const char *path;
    kolo_guard *guard;
    const char *separator; /* default "," */
    bool append; /* to what the file holds; default: it is written anew, unless the training goes on: then the rows of
                    the epochs before it stay, and those of epochs that are trained again go */
} kolo_csv_logger_args;

typedef struct kolo_tensorboard_args {
    const char *_;
    const char *folder; /* default "logs"; event files go to its train/ and validation/ */
    kolo_guard *guard;
    int update_freq; /* also after every so many batches; default: after each epoch */
} kolo_tensorboard_args;

typedef struct kolo_backup_and_restore_args {
    const char *_;
    const char *folder; /* made where it is not there */
    kolo_guard *guard;
    int save_freq; /* batches; default: after each epoch */
    bool keep; /* the backup, also when training has come to its end; default: it is removed then */
} kolo_backup_and_restore_args;

/* Seconds of a training, medians: of a batch; of the epochs after the first. overhead: the share of an epoch that
 * passed between batches. */
typedef struct kolo_timing {
    double batch, epoch, first_epoch, overhead;
    double total, total_without_first; /* of all epochs, validation included */
    int epochs;
} kolo_timing;

typedef struct kolo_batch_timing_args {
    const char *_;
    kolo_timing *result; /* filled in at the end of training; NULL: printed only */
    kolo_guard *guard;
    int verbose; /* 0: prints nothing; default: a table at the end */
} kolo_batch_timing_args;

/* McCandlish et al. 2018, appendix A: tr(Σ) / |G|², in samples, from gradients of small and of big batches: about the
 * batch from which on larger ones bring less and less. */
typedef struct kolo_noise_scale {
    double scale; /* noise / signal; NaN before there was a measurement */
    double noise; /* tr(Σ), of the gradients of single samples */
    double signal; /* |G|², of the true gradient */
    int measurements;
} kolo_noise_scale;

typedef struct kolo_gradient_noise_scale_args {
    const char *_;
    kolo_noise_scale *result; /* kept up to date; NULL: printed only */
    kolo_guard *guard;
    int small_batch, big_batch; /* samples, default 32 and 8 small ones; big a multiple of small */
    int every; /* batches of the training between measurements; default 10 */
    double smoothing; /* of both averages, 0 … below 1; default 0.9 */
    int verbose; /* 0: prints nothing; default: a line an epoch */
} kolo_gradient_noise_scale_args;

typedef struct kolo_callback kolo_callback;
struct kolo_callback {
    const char *name;
    void (*on_train_begin)(kolo_callback *self, const kolo_logs *logs);
    void (*on_train_end)(kolo_callback *self, const kolo_logs *logs);
    void (*on_epoch_begin)(kolo_callback *self, int epoch, const kolo_logs *logs);
    void (*on_epoch_end)(kolo_callback *self, int epoch, const kolo_logs *logs);
    void (*on_train_batch_begin)(kolo_callback *self, int batch, const kolo_logs *logs);
    void (*on_train_batch_end)(kolo_callback *self, int batch, const kolo_logs *logs);
    void (*on_test_begin)(kolo_callback *self, const kolo_logs *logs);
    void (*on_test_end)(kolo_callback *self, const kolo_logs *logs);
    kolo_model *model; /* set by kolo_fit, like: */
    int steps; /* batches an epoch; 0: not known */
    void *user; /* the callback's own; never touched */
    double number[4]; /* the callback's own; as given at the start of each kolo_fit */
    union { /* what Kolo's own were asked for, */
        kolo_model_checkpoint_args model_checkpoint;
        kolo_early_stopping_args early_stopping;
        kolo_reduce_lr_on_plateau_args reduce_lr_on_plateau;
        kolo_learning_rate_scheduler_args learning_rate_scheduler;
        kolo_learning_rate_warmup_args learning_rate_warmup;
        kolo_csv_logger_args csv_logger;
        kolo_tensorboard_args tensorboard;
        kolo_backup_and_restore_args backup_and_restore;
        kolo_batch_timing_args batch_timing;
        kolo_gradient_noise_scale_args gradient_noise_scale;
    };
    void *state; /* and what they keep from on_train_begin to on_train_end */
    void (*release)(kolo_callback *self); /* frees that; called when a fit ends, however it does */
};
#define KOLO_CALLBACKS_MAX 16

/* Saves the model as it trains. */
#define kolo_model_checkpoint(...) kolo_model_checkpoint_of((kolo_model_checkpoint_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_model_checkpoint_of(kolo_model_checkpoint_args args);
/* Ends training when a number has stopped improving. A monitored name that there is not is refused before training,
 * here and below. */
#define kolo_early_stopping(...) kolo_early_stopping_of((kolo_early_stopping_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_early_stopping_of(kolo_early_stopping_args args);
/* Lowers the learning rate when a number has stopped improving. */
#define kolo_reduce_lr_on_plateau(...)                                                                                 \
    kolo_reduce_lr_on_plateau_of((kolo_reduce_lr_on_plateau_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_reduce_lr_on_plateau_of(kolo_reduce_lr_on_plateau_args args);
/* Sets the learning rate before each epoch. */
#define kolo_learning_rate_scheduler(...)                                                                              \
    kolo_learning_rate_scheduler_of((kolo_learning_rate_scheduler_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_learning_rate_scheduler_of(kolo_learning_rate_scheduler_args args);
/* Raises the learning rate batch by batch in the first epochs: η/n · (e·(n − 1)/warmup_epochs + 1) after e epochs. */
#define kolo_learning_rate_warmup(...)                                                                                 \
    kolo_learning_rate_warmup_of((kolo_learning_rate_warmup_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_learning_rate_warmup_of(kolo_learning_rate_warmup_args args);
/* A row of all logs after each epoch, columns in the order of the alphabet. */
#define kolo_csv_logger(...) kolo_csv_logger_of((kolo_csv_logger_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_csv_logger_of(kolo_csv_logger_args args);
/* Event files for `tensorboard --logdir FOLDER`: epoch_loss, epoch_accuracy, …, and batch_loss, … */
#define kolo_tensorboard(...) kolo_tensorboard_of((kolo_tensorboard_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_tensorboard_of(kolo_tensorboard_args args);
/* Ends training when the loss is infinite or no number. */
kolo_callback kolo_terminate_on_nan(void);
/* Keeps a checkpoint in the folder, and goes on from it: a training that was interrupted or killed, run again, ends as
 * if it had not been, but for times. kolo_fit() prints where it goes on, and what differs: the backup's seed and learning
 * rate are used, the samples and .batch_size are those given. List it last, so that it holds what the others have come
 * to. */
#define kolo_backup_and_restore(...) kolo_backup_and_restore_of((kolo_backup_and_restore_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_backup_and_restore_of(kolo_backup_and_restore_args args);
#define kolo_batch_timing(...) kolo_batch_timing_of((kolo_batch_timing_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_batch_timing_of(kolo_batch_timing_args args);
/* Measures the gradient noise scale with samples drawn beside the training, which it does not change. */
#define kolo_gradient_noise_scale(...)                                                                                 \
    kolo_gradient_noise_scale_of((kolo_gradient_noise_scale_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_gradient_noise_scale_of(kolo_gradient_noise_scale_args args);

/* Horovod's: at the start of training every rank takes the weights and the optimizer's state of rank root. */
kolo_callback kolo_broadcast_variables(int root);
/* Horovod's: at each epoch's end loss and metrics become the means over the samples of all ranks. Without it a rank
 * reports its own samples'. List it before callbacks that read them. */
kolo_callback kolo_metric_average(void);
/* The lesson's: prints "Epoch time : 1.23" and "Images/sec: 48712.35" after each epoch, on rank 0, counted over the
 * images that all ranks really trained. */
kolo_callback kolo_throughput(void);

#endif
