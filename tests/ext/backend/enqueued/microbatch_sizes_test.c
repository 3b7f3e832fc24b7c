/* replica/microbatch_sizes_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/replica/microbatch_sizes_test.c"
