/* tests/ext/layers/batch_norm_test.c, of the CUDA backend. */
#include "ext/layers/batch_norm_test.c"
