/* optimizers/own_optimizer_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/optimizers/own_optimizer_test.c"
