/* layers/gradients_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/layers/gradients_test.c"
