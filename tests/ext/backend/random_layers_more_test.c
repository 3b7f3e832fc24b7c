/* random_layers_test.c with other networks, and more of them. */
/* test: long: it draws three times as many networks. */
#define KOLO_TEST_CASES 150
#define KOLO_TEST_FIRST 50
#include "random_layers_test.c"
