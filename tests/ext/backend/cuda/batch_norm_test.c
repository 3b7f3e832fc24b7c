/* batch_norm_test.c, of the CUDA backend. */
#include "../batch_norm_test.c"
