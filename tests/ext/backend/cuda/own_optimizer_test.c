/* optimizers/own_optimizer_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/optimizers/own_optimizer_test.c"
