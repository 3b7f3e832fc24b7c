/* callbacks/callbacks_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/callbacks/callbacks_test.c"
