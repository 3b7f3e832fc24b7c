/* dropout_test.c, of the CUDA backend. */
#include "../dropout_test.c"
