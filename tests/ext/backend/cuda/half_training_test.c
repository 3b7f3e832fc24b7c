/* strategy/half_test.c, of the CUDA backend: on eight devices. */
/* test: long: it trains whole networks on simulated GPUs, in half precision. */
#include <stdlib.h>

/* Before the devices are counted. */
__attribute__((constructor)) static void have_eight_devices(void)
{
    setenv("KOLO_SHIM_DEVICES", "8", 1);
}

#include "on_cuda.h"

#include "ext/replica/half_test.c"
