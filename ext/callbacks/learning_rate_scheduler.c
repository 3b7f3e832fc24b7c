/* Sets the learning rate before each epoch, like Keras's LearningRateScheduler. */
#include <math.h>

#include "callbacks/callbacks.h"
#include "optimizers/optimizer.h"

typedef struct state {
    double initial; /* the rate from which .by_epoch begins if it does not set one */
} state;

static kolo_status check(kolo_callback *self, state *s)
{
    const kolo_learning_rate_scheduler_args *args = &self->learning_rate_scheduler;
    if (!args->schedule == !args->by_epoch.kind)
        return kolo_fail(KOLO_INVALID, "wanted a function of the epoch or .by_epoch, got %s",
                         args->schedule ? "both" : "neither");
    s->initial = kolo_get_learning_rate(self->model);
    kolo_schedule complete;
    return args->schedule ? KOLO_OK : kolo_schedule_complete(&args->by_epoch, s->initial, &complete);
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    state *s = kolo_callback_open(self, sizeof *s);
    kolo_status status = s ? check(self, s) : KOLO_OK;
    kolo_callback_report(self, status);
    if (status != KOLO_OK) kolo_callback_close(self);
}

static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    const kolo_learning_rate_scheduler_args *args = &self->learning_rate_scheduler;
    const state *s = self->state;
    (void)logs;
    if (!s) return;
    double rate = args->schedule ? args->schedule(epoch, kolo_get_learning_rate(self->model))
                                 : kolo_schedule_rate_at(args->by_epoch, s->initial, epoch, (kolo_here){0});
    if (isfinite(rate) && rate >= 0) kolo_callback_report(self, kolo_model_set_rate(self->model, rate));
    else
        kolo_callback_report(self, kolo_fail(KOLO_INVALID, "wanted a learning rate of at least 0 for epoch %d, got %g",
                                             epoch, rate));
    kolo_callback_say(self, args->verbose, "Epoch %d: LearningRateScheduler setting learning rate to %g.\n", epoch + 1,
                      rate);
}

kolo_callback kolo_learning_rate_scheduler_of(kolo_learning_rate_scheduler_args args)
{
    return (kolo_callback){.name = "learning_rate_scheduler",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_train_end = kolo_callback_end,
                           .learning_rate_scheduler = args,
                           .release = kolo_callback_close};
}
