/* convolution_test.c, of the CUDA backend. */
/* test: long: it compares convolutions of hundreds of shapes. */
#include "../convolution_test.c"
