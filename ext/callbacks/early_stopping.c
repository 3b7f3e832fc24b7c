/* Ends training when a number has stopped improving, like Keras's EarlyStopping. */
#include <math.h>

#include "callbacks/callbacks.h"
#include "core/written.h"

typedef struct state {
    kolo_monitor monitor;
    bool restored; /* the numbers of a checkpoint, if any, were taken */
    bool has_best; /* the model keeps the best weights */
    int wait, best_epoch, stopped_epoch;
} state;

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    const kolo_early_stopping_args *args = &self->early_stopping;
    state *s = kolo_callback_open(self, sizeof *s);
    if (!s) return;
    kolo_callback_report(self, kolo_monitor_open(&s->monitor, args->monitor, args->mode, args->min_delta, logs));
    if (args->patience < 0 && args->patience != KOLO_NONE)
        kolo_callback_report(self, kolo_fail(KOLO_INVALID, ".patience: wanted at least 0, got %d", args->patience));
}

/* Takes a checkpoint's numbers here, because in on_train_begin the callback that loads it may not have run yet. */
static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)epoch;
    (void)logs;
    if (!s || s->restored) return;
    s->restored = true;
    s->wait = (int)kolo_callback_kept(self, s->monitor.name, "wait", 0);
    s->monitor.best = kolo_callback_kept(self, s->monitor.name, "best", NAN);
    s->best_epoch = (int)kolo_callback_kept(self, s->monitor.name, "best_epoch", 0);
    s->has_best = self->early_stopping.restore_best_weights && kolo_callback_has_weights(self, s->monitor.name);
}

static kolo_status keep_weights(kolo_callback *self, int epoch)
{
    state *s = self->state;
    if (!self->early_stopping.restore_best_weights || !self->model) return KOLO_OK;
    s->best_epoch = epoch;
    s->has_best = true;
    return kolo_callback_keep_weights(self, s->monitor.name);
}

static kolo_status judge(kolo_callback *self, int epoch, double value)
{
    const kolo_early_stopping_args *args = &self->early_stopping;
    state *s = self->state;
    bool has_baseline = args->baseline != 0;
    if (!s->has_best) KOLO_TRY(keep_weights(self, epoch));
    s->wait++;
    if (kolo_monitor_improves(&s->monitor, value, s->monitor.best)) {
        s->monitor.best = value;
        s->best_epoch = epoch;
        if (!has_baseline || kolo_monitor_improves(&s->monitor, value, kolo_given(args->baseline, 0))) s->wait = 0;
        return keep_weights(self, epoch);
    }
    if (s->wait >= args->patience && epoch > 0) {
        s->stopped_epoch = epoch;
        kolo_stop_training(self->model);
    }
    return KOLO_OK;
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    double value;
    if (!s || epoch < self->early_stopping.start_from_epoch || !kolo_monitor_read(&s->monitor, logs, &value)) return;
    kolo_callback_report(self, judge(self, epoch, value));
    kolo_callback_keep(self, s->monitor.name, "wait", s->wait);
    kolo_callback_keep(self, s->monitor.name, "best", s->monitor.best);
    kolo_callback_keep(self, s->monitor.name, "best_epoch", s->best_epoch);
}

static void end(kolo_callback *self, const kolo_logs *logs)
{
    state *s = self->state;
    int verbose = self->early_stopping.verbose;
    (void)logs;
    if (!s) return;
    if (s->stopped_epoch > 0) kolo_callback_say(self, verbose, "Epoch %d: early stopping\n", s->stopped_epoch + 1);
    if (s->has_best) {
        kolo_callback_say(self, verbose, "Restoring model weights from the end of the best epoch: %d.\n",
                          s->best_epoch + 1);
        kolo_callback_report(self, kolo_callback_take_weights(self, s->monitor.name));
    }
    kolo_callback_close(self);
}

kolo_callback kolo_early_stopping_of(kolo_early_stopping_args args)
{
    kolo_keep_zero(args._, "baseline", &args.baseline);
    return (kolo_callback){.name = "early_stopping",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_epoch_end = end_epoch,
                           .on_train_end = end,
                           .early_stopping = args,
                           .release = kolo_callback_close};
}
