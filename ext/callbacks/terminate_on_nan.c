/* Ends training when the loss is infinite or NaN, like Keras's TerminateOnNaN. */
#include <math.h>

#include "callbacks/callbacks.h"

static void end_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    const kolo_monitor loss = {.name = "loss"};
    double value;
    if (!kolo_monitor_read(&loss, logs, &value) || isfinite(value)) return;
    kolo_callback_say(self, 1, "Batch %d: Invalid loss, terminating training\n", batch);
    kolo_stop_training(self->model);
}

kolo_callback kolo_terminate_on_nan(void)
{
    return (kolo_callback){.name = "terminate_on_nan", .on_train_batch_end = end_batch};
}
