/* For built-in callbacks: see kolo_callbacks.h. */
#ifndef KOLO_TRAINING_CALLBACK_H
#define KOLO_TRAINING_CALLBACK_H

#include "core/error.h"

/* Appends a value. `agreed` is the value for decisions, which is the same on all ranks. Does nothing if the logs are
 * full. */
void kolo_logs_put(kolo_logs *logs, const char *name, double value, double agreed);

#endif
