/* data/feed_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/data/feed_test.c"
