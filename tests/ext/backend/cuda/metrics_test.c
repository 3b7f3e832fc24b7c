/* losses/metrics_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/losses/metrics_test.c"
