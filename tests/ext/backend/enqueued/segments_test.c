/* engine/segments_test.c, of the stream that enqueues. */
/* test: long: it trains many models. */
#include "on_enqueued.h"

#include "ext/engine/segments_test.c"
