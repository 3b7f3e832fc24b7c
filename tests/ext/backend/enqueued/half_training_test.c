/* replica/half_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/replica/half_test.c"
