/* saving/go_on_test.c, of the CUDA backend: on one device and three. */
#include "three_devices.h"

#include "ext/saving/go_on_test.c"
