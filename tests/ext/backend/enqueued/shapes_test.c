/* layers/shapes_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/layers/shapes_test.c"
