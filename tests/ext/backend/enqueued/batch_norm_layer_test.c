/* layers/batch_norm_test.c, of the stream that enqueues. */
#define KOLO_TEST_BACKEND "enqueued"

#include "ext/layers/batch_norm_test.c"
