/* Lowers the learning rate when a number has stopped improving, like Keras's ReduceLROnPlateau. */
#include <math.h>

#include "callbacks/callbacks.h"
#include "core/written.h"

typedef struct state {
    kolo_monitor monitor;
    bool restored;
    int wait, cooldown;
} state;

static kolo_status check(const kolo_reduce_lr_on_plateau_args *args)
{
    if (!(args->factor >= 0 && args->factor < 1) && args->factor != KOLO_NONE)
        return kolo_fail(KOLO_INVALID, ".factor: wanted a number below 1, got %g", args->factor);
    if (args->patience < 0 && args->patience != KOLO_NONE)
        return kolo_fail(KOLO_INVALID, ".patience: wanted at least 0, got %d", args->patience);
    return KOLO_OK;
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    const kolo_reduce_lr_on_plateau_args *args = &self->reduce_lr_on_plateau;
    state *s = kolo_callback_open(self, sizeof *s);
    if (!s) return;
    kolo_callback_report(self, check(args));
    double delta = kolo_given(args->min_delta, 1e-4);
    kolo_callback_report(self, kolo_monitor_open(&s->monitor, args->monitor, args->mode, delta, logs));
}

static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)epoch;
    (void)logs;
    if (!s || s->restored) return;
    s->restored = true;
    s->wait = (int)kolo_callback_kept(self, s->monitor.name, "wait", 0);
    s->cooldown = (int)kolo_callback_kept(self, s->monitor.name, "cooldown", 0);
    s->monitor.best = kolo_callback_kept(self, s->monitor.name, "best", NAN);
}

static void reduce(kolo_callback *self, int epoch)
{
    const kolo_reduce_lr_on_plateau_args *args = &self->reduce_lr_on_plateau;
    state *s = self->state;
    double old = kolo_get_learning_rate(self->model), rate = fmax(old * kolo_given(args->factor, 0.1), args->min_lr);
    if (!(old > args->min_lr)) return;
    kolo_callback_report(self, kolo_model_set_rate(self->model, rate));
    kolo_callback_say(self, args->verbose, "Epoch %d: ReduceLROnPlateau reducing learning rate to %g.\n", epoch + 1,
                      rate);
    s->cooldown = args->cooldown;
    s->wait = 0;
}

static void judge(kolo_callback *self, int epoch, double value)
{
    state *s = self->state;
    int patience = (int)kolo_given(self->reduce_lr_on_plateau.patience, 10);
    if (s->cooldown > 0) {
        s->cooldown--;
        s->wait = 0;
    }
    if (kolo_monitor_improves(&s->monitor, value, s->monitor.best)) {
        s->monitor.best = value;
        s->wait = 0;
    } else if (s->cooldown == 0 && ++s->wait >= patience) {
        reduce(self, epoch);
    }
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    double value;
    if (!s || !kolo_monitor_read(&s->monitor, logs, &value)) return;
    judge(self, epoch, value);
    kolo_callback_keep(self, s->monitor.name, "wait", s->wait);
    kolo_callback_keep(self, s->monitor.name, "cooldown", s->cooldown);
    kolo_callback_keep(self, s->monitor.name, "best", s->monitor.best);
}

kolo_callback kolo_reduce_lr_on_plateau_of(kolo_reduce_lr_on_plateau_args args)
{
    kolo_keep_zero(args._, "factor", &args.factor);
    kolo_keep_zero(args._, "min_delta", &args.min_delta);
    kolo_keep_zero_int(args._, "patience", &args.patience);
    return (kolo_callback){.name = "reduce_lr_on_plateau",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_epoch_end = end_epoch,
                           .on_train_end = kolo_callback_end,
                           .reduce_lr_on_plateau = args,
                           .release = kolo_callback_close};
}
