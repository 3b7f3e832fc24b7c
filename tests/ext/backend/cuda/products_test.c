/* products_test.c, of the CUDA backend. */
#include "../products_test.c"
