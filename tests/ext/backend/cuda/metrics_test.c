/* losses/metrics_test.c, of the CUDA backend. */
/* test: long: it evaluates every metric on simulated GPUs. */
#include "on_cuda.h"

#include "ext/losses/metrics_test.c"
