/* network_test.c, of the CUDA backend. */
#ifndef KOLO_TEST_CASES
#define KOLO_TEST_CASES 4
#endif
#include "../network_test.c"
