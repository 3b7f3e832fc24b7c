/* saving/save_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/saving/save_test.c"
