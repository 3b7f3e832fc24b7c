/* layers/gaussian_sample_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/layers/gaussian_sample_test.c"
