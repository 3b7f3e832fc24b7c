/* What callbacks are told: see section 8 of kolo.h. */
#ifndef KOLO_CORE_CALLBACK_H
#define KOLO_CORE_CALLBACK_H

#include "core/error.h"

#define KOLO_LOGS_MAX (2 * KOLO_METRICS_MAX + 12)

struct kolo_logs {
    int count;
    const char *names[KOLO_LOGS_MAX];
    double values[KOLO_LOGS_MAX];
};

void kolo_logs_put(kolo_logs *logs, const char *name, double value);

/* Called by our own callbacks when a hook failed: the fit ends with this status and the thread's failure. */
void kolo_callback_failed(kolo_model *model, kolo_status status);

#endif
