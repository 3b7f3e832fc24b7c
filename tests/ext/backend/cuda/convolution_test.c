/* convolution_test.c, of the CUDA backend. */
#include "../convolution_test.c"
