/* layers/gradients_test.c, of the CUDA backend. */
/* test: long: it holds the gradients of whole networks against finite differences. */
#include "on_cuda.h"

#include "ext/layers/gradients_test.c"
