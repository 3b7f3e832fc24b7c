/* backend/signals_test.c, of the stream that enqueues. */
/* test: long: its reference kernels run for many seconds. */
#include "on_enqueued.h"

#include "ext/backend/signals_test.c"
