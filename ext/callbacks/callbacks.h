/* Functions that Kolo's callbacks share: for their state, failures and monitored numbers. Each callback is a file of
 * ext/callbacks/. */
#ifndef KOLO_CALLBACKS_SHARED_H
#define KOLO_CALLBACKS_SHARED_H

#include "training/callback.h"
#include "model/model.h"

/* Allocates and zeroes self->state, in on_train_begin, after releasing an older one. NULL: there is no memory, which
 * has been reported. */
void *kolo_callback_open(kolo_callback *self, size_t bytes);
/* Frees self->state: the release() of callbacks whose state owns nothing. */
void kolo_callback_close(kolo_callback *self);
/* The on_train_end of callbacks that only close their state then. */
void kolo_callback_end(kolo_callback *self, const kolo_logs *logs);

/* Reports the status of a hook: its first failure ends the fit; in a training loop of the caller's it is published
 * like that of a public call. */
void kolo_callback_report(kolo_callback *self, kolo_status status);

/* Whether this process prints and writes files: only rank 0 does. */
bool kolo_callback_is_writer(void);
/* Prints to stdout, on rank 0 and if verbose ≥ 1; ends the line of an unfinished progress bar first. */
void kolo_callback_say(const kolo_callback *self, int verbose, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets and gets a number that checkpoints hold, such as state->wait. Its name consists of the callback's name, the
 * monitor's and `what`. kept() returns the fallback unless the fit resumes from a checkpoint that has the number. */
void kolo_callback_keep(kolo_callback *self, const char *monitor, const char *what, double value);
double kolo_callback_kept(const kolo_callback *self, const char *monitor, const char *what, double fallback);
/* Likewise for weights: keeps a copy of the model's current weights; whether the fit resumes with such a copy; sets
 * the model's weights to the copy. */
kolo_status kolo_callback_keep_weights(kolo_callback *self, const char *monitor);
bool kolo_callback_has_weights(const kolo_callback *self, const char *monitor);
kolo_status kolo_callback_take_weights(kolo_callback *self, const char *monitor);

/* A monitored number of the logs, and its best value. */
typedef struct kolo_monitor {
    const char *name;
    bool larger; /* larger values are better */
    double min_delta; /* ≥ 0: a smaller change is no improvement */
    double best; /* NaN: none yet */
} kolo_monitor;

/* Fills in a monitor. name NULL: "val_loss". logs: those of on_train_begin. Fails if they do not have the name, with
 * a list of the names that they have; accepts any name if they are empty or NULL. */
kolo_status kolo_monitor_open(kolo_monitor *monitor, const char *name, kolo_mode mode, double min_delta,
                              const kolo_logs *logs);
/* Gets the value on which all ranks agree; false: the logs do not have it now. */
bool kolo_monitor_read(const kolo_monitor *monitor, const kolo_logs *logs, double *value);
/* Whether the value is better than the reference by more than min_delta. A reference of NaN is worse than any number;
 * a value of NaN never improves. */
bool kolo_monitor_improves(const kolo_monitor *monitor, double value, double reference);

/* Makes the folders of a file's path. */
kolo_status kolo_make_folders(const char *path);

bool kolo_logs_has(const kolo_logs *logs, const char *name);

/* The value of an option: the fallback for 0, which means that it was not given; 0 for KOLO_NONE. */
static inline double kolo_given(double value, double fallback)
{
    return value == 0 ? fallback : value == KOLO_NONE ? 0 : value;
}

#endif
