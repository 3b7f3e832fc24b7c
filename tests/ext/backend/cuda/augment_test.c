/* data/augment_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/data/augment_test.c"
