/* Raises the learning rate batch by batch in the first epochs, like Horovod's LearningRateWarmupCallback
 * (horovod/_keras/callbacks.py): to η/n · (e·(n − 1)/warmup_epochs + 1) after e epochs, where e counts batches as
 * fractions of an epoch. */
#include "callbacks/callbacks.h"
#include "replica/trainer.h"

typedef struct state {
    int epoch, steps, size, epochs;
} state;

static kolo_status open_state(kolo_callback *self, state *s)
{
    const kolo_learning_rate_warmup_args *args = &self->learning_rate_warmup;
    KOLO_TRY(kolo_model_check_compiled(self->model, "kolo_learning_rate_warmup()"));
    s->size = args->size ? args->size : kolo_model_members(self->model);
    s->steps = args->steps_per_epoch ? args->steps_per_epoch : self->steps;
    s->epochs = args->warmup_epochs ? args->warmup_epochs : 5;
    if (!(args->initial_lr > 0))
        return kolo_fail(KOLO_INVALID, "initial_lr: wanted a number above 0, got %g", args->initial_lr);
    if (s->size < 1 || s->epochs < 1)
        return kolo_fail(KOLO_INVALID, ".size and .warmup_epochs: wanted at least 1, got %d and %d", s->size,
                         s->epochs);
    if (s->steps < 1) return kolo_fail(KOLO_INVALID, ".steps_per_epoch: wanted at least 1, got %d", s->steps);
    return KOLO_OK;
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    state *s = kolo_callback_open(self, sizeof *s);
    kolo_status status = s ? open_state(self, s) : KOLO_OK;
    kolo_callback_report(self, status);
    if (status != KOLO_OK) kolo_callback_close(self);
}

static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)logs;
    if (s) s->epoch = epoch;
}

/* batch + 1: the current batch counts, so that the last batch of an epoch has a whole number of epochs. */
static void begin_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    const state *s = self->state;
    (void)logs;
    if (!s || s->epoch >= s->epochs) return;
    double epochs = s->epoch + (double)(batch + 1) / s->steps;
    double part = (epochs * (s->size - 1) / s->epochs + 1) / s->size;
    double rate = self->learning_rate_warmup.initial_lr * part;
    kolo_callback_report(self, kolo_model_set_rate(self->model, rate));
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    const state *s = self->state;
    (void)logs;
    if (s && epoch == s->epochs - 1)
        kolo_callback_say(self, self->learning_rate_warmup.verbose,
                          "Epoch %d: finished gradual learning rate warmup to %g.\n", epoch + 1,
                          self->learning_rate_warmup.initial_lr);
}

kolo_callback kolo_learning_rate_warmup_of(kolo_learning_rate_warmup_args args)
{
    return (kolo_callback){.name = "learning_rate_warmup",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_epoch_end = end_epoch,
                           .on_train_batch_begin = begin_batch,
                           .on_train_end = kolo_callback_end,
                           .learning_rate_warmup = args,
                           .release = kolo_callback_close};
}
