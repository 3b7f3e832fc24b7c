/* losses/metrics_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/losses/metrics_test.c"
