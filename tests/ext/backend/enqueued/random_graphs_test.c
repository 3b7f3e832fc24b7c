/* backend/random_graphs_test.c, of the stream that enqueues. */
#define KOLO_TEST_BACKEND "enqueued"

#include "ext/backend/random_graphs_test.c"
