/* What our own callbacks share: their state, failures, monitored numbers. One file of ext/callbacks/ for each. */
#ifndef KOLO_CALLBACKS_SHARED_H
#define KOLO_CALLBACKS_SHARED_H

#include "training/callback.h"
#include "model/model.h"

/* Zeroed memory for self->state, from on_train_begin on; NULL, reported, where there is none. */
void *kolo_callback_open(kolo_callback *self, size_t bytes);
/* Frees self->state: the release() of those that hold nothing else. */
void kolo_callback_close(kolo_callback *self);

/* A hook's failure: ends the fit with it, or, in a loop of the caller's, is told as a call's. */
void kolo_callback_check(kolo_callback *self, kolo_status status);

/* Whether this process prints and writes. */
bool kolo_callback_speaks(void);
/* A line on stdout, where .verbose asks for it, from rank 0; a progress bar that stands there is broken off. */
void kolo_callback_say(const kolo_callback *self, int verbose, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Numbers that a checkpoint keeps: state->wait and its like. The name is the callback's, the monitor's and `what`.
 * kept: the fallback unless the fit goes on from a checkpoint that has it. */
void kolo_callback_keep(kolo_callback *self, const char *monitor, const char *what, double value);
double kolo_callback_kept(const kolo_callback *self, const char *monitor, const char *what, double fallback);
/* Likewise the model's weights as they are now; whether a checkpoint had some; and makes them the model's again. */
kolo_status kolo_callback_keep_weights(kolo_callback *self, const char *monitor);
bool kolo_callback_has_weights(const kolo_callback *self, const char *monitor);
kolo_status kolo_callback_take_weights(kolo_callback *self, const char *monitor);

/* A number of the logs whose best is sought. */
typedef struct kolo_monitor {
    const char *name;
    bool larger; /* is better */
    double min_delta;
    double best; /* NaN: none yet */
} kolo_monitor;

/* Fills it in from a recipe (name NULL: "val_loss"). logs: of on_train_begin; a name that they have not is refused,
 * with those that they have. Empty logs say nothing of what will be there. */
kolo_status kolo_monitor_open(kolo_monitor *monitor, const char *name, kolo_mode mode, double min_delta,
                              const kolo_logs *logs);
/* The number as all ranks know it; false where it is not there now. */
bool kolo_monitor_read(const kolo_monitor *monitor, const kolo_logs *logs, double *value);
/* Whether the value is better than the reference (NaN: than nothing) by more than min_delta. What is no number never
 * is. */
bool kolo_monitor_improves(const kolo_monitor *monitor, double value, double reference);

/* Makes the folders that a path stands in. */
kolo_status kolo_make_folders(const char *path);

bool kolo_logs_has(const kolo_logs *logs, const char *name);

/* A value that 0 leaves at its default, and KOLO_NONE sets to zero. */
static inline double kolo_given(double value, double fallback)
{
    return value == 0 ? fallback : value == KOLO_NONE ? 0 : value;
}

#endif
