/* images_test.c, of the CUDA backend. */
#include "../images_test.c"
