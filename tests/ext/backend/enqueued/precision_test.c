/* training/precision_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/training/precision_test.c"
