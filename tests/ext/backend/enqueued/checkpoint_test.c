/* saving/checkpoint_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/saving/checkpoint_test.c"
