/* half_test.c, of the CUDA backend. */
#include "../half_test.c"
