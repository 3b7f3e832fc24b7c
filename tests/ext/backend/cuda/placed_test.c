/* engine/placed_test.c, of the CUDA backend: each device reaches its own memory alone. */
/* test: long: it trains models at random placements. */
#ifndef KOLO_TEST_CASES
#define KOLO_TEST_CASES 2
#endif
#include <stdlib.h>

/* Before the devices are counted. */
__attribute__((constructor)) static void have_six_devices(void)
{
    setenv("KOLO_SHIM_DEVICES", "6", 1);
    setenv("KOLO_SHIM_FENCES", "1", 1);
    setenv("KOLO_GPU_DEVICES", "6", 1);
}

#include "ext/engine/placed_test.c"
