/* training/history_test.c, of the CUDA backend. */
#include "on_cuda.h"

#include "ext/training/history_test.c"
