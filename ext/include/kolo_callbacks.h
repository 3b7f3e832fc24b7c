/* Section 8 of kolo.h: callbacks, hooks into training. Included by kolo_training.h: read that first.
 *
 *     kolo_fit(model, train, .epochs = 50, .validation_data = test,
 *              .callbacks = {kolo_early_stopping(.patience = 3), kolo_csv_logger("log.csv")});
 *
 * Names, defaults and semantics are Keras's. Your own callback is a kolo_callback with the hooks that you want. A
 * training loop of yours can call the hooks of any callback, too: set .model, call .on_train_begin with logs that have
 * the names of all measured numbers, then the other hooks, each with logs that you filled in, and last .on_train_end.
 *
 * A callback is a value: it can be used again, and its state is freed when training ends. Texts in it must stay valid
 * until training ends. If several ranks train together, each has the callbacks, but only rank 0 writes and prints. */
#ifndef KOLO_CALLBACKS_H
#define KOLO_CALLBACKS_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------------- 8 callbacks */

#define KOLO_LOGS_MAX (2 * KOLO_METRICS_MAX + 12)

/* The numbers that a hook receives. kolo_fit gives "loss", the metrics, both again with the prefix "val_" if there are
 * validation data, "seconds", "images", "images_per_second", "learning_rate" and "steps". At the end of a batch they
 * cover the epoch so far. */
typedef struct kolo_logs {
    int count;
    const char *names[KOLO_LOGS_MAX];
    double values[KOLO_LOGS_MAX];
    double agreed[KOLO_LOGS_MAX]; /* callbacks decide by these: equal on all ranks, while values[] are this rank's */
} kolo_logs;

/* The value with that name, or NaN. */
double kolo_logs_get(const kolo_logs *logs, const char *name);
/* For your own loop: kolo_logs logs = {0}; kolo_logs_set(&logs, "loss", 0.5). The name must outlive the logs. */
void kolo_logs_set(kolo_logs *logs, const char *name, double value);

/* Ends the fit on every rank: after this step if one rank trains, after the next one if several do, since they agree on
 * the stop in its sums. So weights after a stop within an epoch depend on this, with .deterministic, too. */
void kolo_stop_training(kolo_model *model);
/* Whether kolo_stop_training() was called since the last fit or kolo_train_on_batch() began. */
bool kolo_training_stopped(const kolo_model *model);
/* Takes effect at the next step. The rate must be at least 0. Fails, and changes nothing, if the optimizer has a
 * .schedule. */
#define kolo_set_learning_rate(model, learning_rate) kolo_set_learning_rate_at((model), (learning_rate), KOLO_HERE)
kolo_status kolo_set_learning_rate_at(kolo_model *model, double learning_rate, kolo_here here);
double kolo_get_learning_rate(const kolo_model *model); /* of the last step; before the first step, of that step */

/* Whether a smaller or a larger monitored number is better. The default depends on the number's name: KOLO_MAX for
 * accuracies, precision, recall, F1, AUC and rates per second, else KOLO_MIN. */
typedef enum kolo_mode { KOLO_MIN = 1, KOLO_MAX } kolo_mode;

typedef struct kolo_model_checkpoint_args {
    const char *_;
    const char *path; /* may contain {epoch}, {batch} (both from 1) and names of logs: {epoch:02d}, {val_loss:.2f} */
    kolo_guard *guard;
    const char *monitor; /* default "val_loss" */
    kolo_mode mode;
    bool save_best_only; /* save only when the monitored number is better than ever before */
    bool save_weights_only; /* kolo_save(); default: kolo_checkpoint_save(), with layers and the optimizer's state */
    int save_freq; /* batches between two saves; default: save after each epoch */
    double initial_value_threshold; /* with save_best_only, the first saved number must be better; default: any */
    int verbose; /* 1: prints each save */
} kolo_model_checkpoint_args;

typedef struct kolo_early_stopping_args {
    const char *_;
    kolo_guard *guard;
    const char *monitor; /* default "val_loss" */
    double min_delta; /* a change of no more than this is no improvement; default 0 */
    int patience; /* training ends after this many epochs in a row without improvement; default 0, which means 1 */
    kolo_mode mode;
    double baseline; /* an improvement restarts the patience only if it passes this value too; default: none */
    bool restore_best_weights; /* at the end of training, restore the weights of the best epoch. Checkpoints contain
                                  them for a resumed training. Default: keep the weights of the last epoch */
    int start_from_epoch; /* epochs before this number (from 0) do not count */
    int verbose;
} kolo_early_stopping_args;

typedef struct kolo_reduce_lr_on_plateau_args {
    const char *_;
    kolo_guard *guard;
    const char *monitor; /* default "val_loss" */
    double factor; /* the learning rate is multiplied by it; below 1, default 0.1 */
    int patience; /* epochs without improvement before a reduction; default 10 */
    kolo_mode mode;
    double min_delta; /* default 1e-4 */
    int cooldown; /* epochs after a reduction that do not count; default 0 */
    double min_lr; /* the learning rate never goes below it; default 0 */
    int verbose;
} kolo_reduce_lr_on_plateau_args;

typedef struct kolo_learning_rate_scheduler_args {
    const char *_;
    double (*schedule)(int epoch,
                       double learning_rate); /* returns the rate of `epoch` (from 0), given the rate before it */
    kolo_guard *guard;
    kolo_schedule by_epoch; /* instead of `schedule`: one of kolo_schedules.h, whose steps are epochs here */
    int verbose;
} kolo_learning_rate_scheduler_args;

/* Horovod's LearningRateWarmupCallback (Goyal et al. 2017), without its momentum correction. */
typedef struct kolo_learning_rate_warmup_args {
    const char *_;
    double initial_lr; /* the rate at the end of the warm-up, for all devices together; required */
    kolo_guard *guard;
    int warmup_epochs; /* default 5 */
    int steps_per_epoch; /* default: kolo_fit's */
    int size; /* the warm-up begins at initial_lr / size; default: the number of replicas on all ranks */
    int verbose;
} kolo_learning_rate_warmup_args;

typedef struct kolo_csv_logger_args {
    const char *_;
    const char *path;
    kolo_guard *guard;
    const char *separator; /* default "," */
    bool append; /* append to the file; default: overwrite it. A resumed training keeps the rows of the epochs before it
                    and drops the rows of epochs that it trains again */
} kolo_csv_logger_args;

typedef struct kolo_tensorboard_args {
    const char *_;
    const char *folder; /* default "logs"; event files are written to its subfolders train/ and validation/ */
    kolo_guard *guard;
    int update_freq; /* also write after every this many batches; default: only after each epoch */
} kolo_tensorboard_args;

typedef struct kolo_backup_and_restore_args {
    const char *_;
    const char *folder; /* created if it does not exist */
    kolo_guard *guard;
    int save_freq; /* batches between two backups; default: back up after each epoch. The first is made before training */
    bool keep; /* keep the backup after training has been completed; default: remove it */
} kolo_backup_and_restore_args;

/* Times of a training in seconds. `batch` and `epoch` are medians, without the first epoch if there are others.
 * `overhead` is the median share of an epoch (0 … 1) that passed between batches. */
typedef struct kolo_timing {
    double batch, epoch, first_epoch, overhead;
    double total, total_without_first; /* all epochs, including validation */
    int epochs;
} kolo_timing;

typedef struct kolo_batch_timing_args {
    const char *_;
    kolo_timing *result; /* filled in at the end of training; NULL: the times are only printed */
    kolo_guard *guard;
    int verbose; /* 0: prints nothing; default: two lines at the end */
} kolo_batch_timing_args;

/* The gradient noise scale tr(Σ) / |G|² (McCandlish et al. 2018, appendix A), in samples, estimated from the gradients
 * of small and of big batches. Batches larger than about this size bring less and less. */
typedef struct kolo_noise_scale {
    double scale; /* noise / signal; NaN before the first measurement */
    double noise; /* tr(Σ), the variance of the gradients of single samples */
    double signal; /* |G|², the squared norm of the true gradient */
    int measurements;
} kolo_noise_scale;

typedef struct kolo_gradient_noise_scale_args {
    const char *_;
    kolo_noise_scale *result; /* updated after each measurement; NULL: the scale is only printed */
    kolo_guard *guard;
    int small_batch, big_batch; /* samples; default 32 and 8 · small_batch; big_batch is a multiple of small_batch */
    int every; /* training batches between two measurements; default 10 */
    double smoothing; /* of the running means of noise and signal, 0 … below 1; default 0.9 */
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
    kolo_model *model; /* set by kolo_fit */
    int steps; /* batches an epoch, set by kolo_fit; 0: not known */
    void *user; /* for the callback's use; Kolo never touches it */
    double number[4]; /* for the callback's use; has the given values again at the start of each kolo_fit */
    union { /* the options of Kolo's own callbacks */
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
    void *state; /* their state between on_train_begin and on_train_end */
    void (*release)(kolo_callback *self); /* frees `state`; called whenever a fit ends, also after a failure */
};
#define KOLO_CALLBACKS_MAX 16

/* Saves the model as it trains. */
#define kolo_model_checkpoint(...) kolo_model_checkpoint_of((kolo_model_checkpoint_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_model_checkpoint_of(kolo_model_checkpoint_args args);
/* Ends training when a number has stopped improving. Like the callbacks below, it refuses an unknown monitored name
 * before training begins. */
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
/* Writes a row of all logs after each epoch, with the columns in alphabetical order. */
#define kolo_csv_logger(...) kolo_csv_logger_of((kolo_csv_logger_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_csv_logger_of(kolo_csv_logger_args args);
/* Writes event files for `tensorboard --logdir FOLDER`: epoch_loss, epoch_accuracy, …, and batch_loss, … */
#define kolo_tensorboard(...) kolo_tensorboard_of((kolo_tensorboard_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_tensorboard_of(kolo_tensorboard_args args);
/* Ends training when the loss is infinite or NaN. */
kolo_callback kolo_terminate_on_nan(void);
/* Keeps a checkpoint in the folder and resumes from it: if a training was interrupted or killed and is run again, its
 * result is the same as without the interruption, except for times. kolo_fit() prints where it resumes, and the
 * differences: it uses the backup's seed and learning rate, but the given .batch_size, and within an epoch it wants the
 * same number of samples. Workers (.workers) begin an epoch anew that was interrupted, so with them this holds of backups
 * after an epoch. List this callback last, so that the checkpoint contains the state of the others after their hooks. */
#define kolo_backup_and_restore(...) kolo_backup_and_restore_of((kolo_backup_and_restore_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_backup_and_restore_of(kolo_backup_and_restore_args args);
#define kolo_batch_timing(...) kolo_batch_timing_of((kolo_batch_timing_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_batch_timing_of(kolo_batch_timing_args args);
/* Measures the gradient noise scale with samples that it draws itself; the training does not change. */
#define kolo_gradient_noise_scale(...)                                                                                 \
    kolo_gradient_noise_scale_of((kolo_gradient_noise_scale_args){._ = #__VA_ARGS__, __VA_ARGS__})
kolo_callback kolo_gradient_noise_scale_of(kolo_gradient_noise_scale_args args);

/* As in Horovod: at the start of training every rank takes the weights and the optimizer's state of rank `root`. */
kolo_callback kolo_broadcast_variables(int root);
/* As in Horovod: at each epoch's end, loss and metrics become the means over the samples of all ranks. Without it each
 * rank reports the means over its own samples. List it before callbacks that read loss or metrics. */
kolo_callback kolo_metric_average(void);
/* From the lesson: prints "Epoch time : 1.23" and "Images/sec: 48712.35" after each epoch, on rank 0. The rate counts
 * the images that all ranks actually trained. */
kolo_callback kolo_throughput(void);

#endif
