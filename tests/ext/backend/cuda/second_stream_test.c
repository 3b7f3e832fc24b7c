/* replica/second_stream_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/replica/second_stream_test.c"
