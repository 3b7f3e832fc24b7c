/* data/augment_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/data/augment_test.c"
