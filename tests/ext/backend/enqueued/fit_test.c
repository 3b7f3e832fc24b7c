/* training/fit_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/training/fit_test.c"
