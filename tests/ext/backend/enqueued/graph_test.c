/* model/graph_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/model/graph_test.c"
