/* Section 8 of kolo.h: callbacks. Included by kolo.h: read that first. */
#ifndef KOLO_CALLBACKS_H
#define KOLO_CALLBACKS_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------------- 8 callbacks */

/* What is known when a hook is called; a name that is not known then is NaN. Names: "loss", "accuracy", "val_loss",
 * "val_accuracy", "seconds", "images", "images_per_second", "learning_rate", "steps", with KOLO_MIXED_FP16
 * "loss_scale". At a batch's end loss and accuracy are the epoch's means so far. */
double kolo_logs_get(const kolo_logs *logs, const char *name);
void kolo_stop_training(kolo_model *model);           /* ends the fit after this step, on every rank */
/* From the next step on; at least 0. Fails where the optimizer has a .schedule, and changes nothing then. */
#define kolo_set_learning_rate(model, learning_rate) kolo_set_learning_rate_at((model), (learning_rate), KOLO_HERE)
kolo_status kolo_set_learning_rate_at(kolo_model *model, double learning_rate, kolo_here here);
double kolo_get_learning_rate(const kolo_model *model); /* of the last step, or of the first before it */

/* Horovod's: at the start of training every rank takes the weights and the optimizer's state of rank root. */
kolo_callback kolo_broadcast_variables(int root);
/* Horovod's: at each epoch's end loss and metrics become the means over the samples of all ranks. Without it a rank
 * reports its own samples'. List it before callbacks that read them. */
kolo_callback kolo_metric_average(void);
/* The lesson's: prints "Epoch time : 1.23" and "Images/sec: 48712.35" after each epoch, on rank 0, counted over the
 * images that all ranks really trained. */
kolo_callback kolo_throughput(void);

#endif
