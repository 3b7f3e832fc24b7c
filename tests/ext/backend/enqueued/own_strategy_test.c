/* strategy/own_strategy_test.c, of the stream that enqueues. */
#define KOLO_TEST_BACKEND "enqueued"

#include "ext/strategy/own_strategy_test.c"
