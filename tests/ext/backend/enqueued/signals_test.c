/* backend/signals_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/backend/signals_test.c"
