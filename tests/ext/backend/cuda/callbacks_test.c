/* callbacks/callbacks_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/callbacks/callbacks_test.c"
