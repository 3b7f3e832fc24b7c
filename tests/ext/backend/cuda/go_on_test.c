/* saving/go_on_test.c, of the CUDA backend: on one device and three. */
/* test: long: it trains, stops and goes on with every optimizer. */
#include "three_devices.h"

#include "ext/saving/go_on_test.c"
