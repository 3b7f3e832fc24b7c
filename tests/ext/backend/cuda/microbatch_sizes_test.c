/* replica/microbatch_sizes_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/replica/microbatch_sizes_test.c"
