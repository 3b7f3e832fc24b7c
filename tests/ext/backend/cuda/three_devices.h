/* First in a test of several devices: the shim has as many, unless it is told otherwise. */
#ifndef KOLO_TESTS_THREE_DEVICES_H
#define KOLO_TESTS_THREE_DEVICES_H

#include <stdlib.h>

/* Before the devices are counted. */
__attribute__((constructor)) static void have_three_devices(void)
{
    setenv("KOLO_SHIM_DEVICES", "3", 0);
    setenv("KOLO_GPU_DEVICES", "3", 0);
}

#endif
