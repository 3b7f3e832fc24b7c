/* saving/go_on_test.c, of the stream that enqueues. */
#define KOLO_TEST_BACKEND "enqueued"

#include "ext/saving/go_on_test.c"
