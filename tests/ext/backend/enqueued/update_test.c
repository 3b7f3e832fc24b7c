/* replica/update_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/replica/update_test.c"
