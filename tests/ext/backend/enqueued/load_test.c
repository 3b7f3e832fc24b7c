/* saving/load_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/saving/load_test.c"
