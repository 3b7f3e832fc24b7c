/* activation_test.c, of the CUDA backend. */
#include "../activation_test.c"
