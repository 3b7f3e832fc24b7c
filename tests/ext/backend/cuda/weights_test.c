/* saving/weights_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/saving/weights_test.c"
