/* strategy/mirrored_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/strategy/mirrored_test.c"
