/* backend/nan_test.c, of the stream that enqueues. */
#define KOLO_TEST_BACKEND "enqueued"

#include "ext/backend/nan_test.c"
