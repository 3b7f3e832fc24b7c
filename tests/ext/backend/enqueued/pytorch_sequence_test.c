/* layers/pytorch_sequence_test.c, of the stream that enqueues. */
#include "on_enqueued.h"

#include "ext/layers/pytorch_sequence_test.c"
