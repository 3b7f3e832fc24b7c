/* layers/gradients_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/layers/gradients_test.c"
