/* saving/checkpoint_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/saving/checkpoint_test.c"
