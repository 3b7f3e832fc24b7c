/* layers/gaussian_sample_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/layers/gaussian_sample_test.c"
