/* Calls the hooks of callbacks: see section 8 of kolo.h. */
#ifndef KOLO_TRAINING_CALLBACK_H
#define KOLO_TRAINING_CALLBACK_H

#include "core/error.h"

/* One more, where a rank's own value is not what decisions are made on. */
void kolo_logs_put(kolo_logs *logs, const char *name, double value, double agreed);

/* Called by our own callbacks when a hook failed: the fit ends with this status and the thread's failure. */
void kolo_callback_failed(kolo_model *model, kolo_status status);

#endif
