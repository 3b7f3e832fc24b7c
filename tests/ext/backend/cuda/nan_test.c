/* nan_test.c, of the CUDA backend. */
#include "../nan_test.c"
