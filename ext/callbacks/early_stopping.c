/* Ends training when a number has stopped improving, as Keras's EarlyStopping. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "callbacks/callbacks.h"
#include "saving/save.h"

typedef struct state {
    kolo_monitor monitor;
    bool restored; /* what a checkpoint kept */
    int wait, best_epoch, stopped_epoch;
    float *best_weights;
} state;

static void release(kolo_callback *self)
{
    state *s = self->state;
    if (s) free(s->best_weights);
    kolo_callback_close(self);
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    const kolo_early_stopping_args *args = &self->early_stopping;
    state *s = kolo_callback_open(self, sizeof *s);
    if (!s) return;
    kolo_callback_check(self, kolo_monitor_open(&s->monitor, args->monitor, args->mode, args->min_delta, logs));
    if (args->patience < 0 && args->patience != KOLO_NONE)
        kolo_callback_check(self, kolo_fail(KOLO_INVALID, ".patience: wanted at least 0, got %d", args->patience));
}

/* By now every callback has begun, and one of them may have loaded a checkpoint. */
static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)epoch;
    (void)logs;
    if (!s || s->restored) return;
    s->restored = true;
    s->wait = (int)kolo_callback_kept(self, s->monitor.name, "wait", 0);
    s->monitor.best = kolo_callback_kept(self, s->monitor.name, "best", NAN);
}

static kolo_status keep_weights(kolo_callback *self, int epoch)
{
    state *s = self->state;
    kolo_model *model = self->model;
    if (!self->early_stopping.restore_best_weights || !model) return KOLO_OK;
    size_t bytes = (size_t)(model->weight_count + 1) * sizeof(float);
    KOLO_TRY(kolo_weights_ready(model));
    if (!s->best_weights) s->best_weights = malloc(bytes);
    if (!s->best_weights) return kolo_fail_memory(bytes, "the best weights");
    memcpy(s->best_weights, model->weights, (size_t)model->weight_count * sizeof(float));
    s->best_epoch = epoch;
    return KOLO_OK;
}

static kolo_status judge(kolo_callback *self, int epoch, double value)
{
    const kolo_early_stopping_args *args = &self->early_stopping;
    state *s = self->state;
    bool has_baseline = args->baseline != 0;
    if (!s->best_weights) KOLO_TRY(keep_weights(self, epoch));
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
    kolo_callback_check(self, judge(self, epoch, value));
    kolo_callback_keep(self, s->monitor.name, "wait", s->wait);
    kolo_callback_keep(self, s->monitor.name, "best", s->monitor.best);
}

static void end(kolo_callback *self, const kolo_logs *logs)
{
    state *s = self->state;
    int verbose = self->early_stopping.verbose;
    (void)logs;
    if (!s) return;
    if (s->stopped_epoch > 0) kolo_callback_say(self, verbose, "Epoch %d: early stopping\n", s->stopped_epoch + 1);
    if (s->best_weights) {
        kolo_callback_say(self, verbose, "Restoring model weights from the end of the best epoch: %d.\n",
                          s->best_epoch + 1);
        kolo_callback_check(self, kolo_weights_take(self->model, s->best_weights));
    }
    release(self);
}

kolo_callback kolo_early_stopping_of(kolo_early_stopping_args args)
{
    return (kolo_callback){.name = "early_stopping",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_epoch_end = end_epoch,
                           .on_train_end = end,
                           .early_stopping = args,
                           .release = release};
}
