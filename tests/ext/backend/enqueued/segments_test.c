/* engine/segments_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/engine/segments_test.c"
