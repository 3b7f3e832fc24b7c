/* strategy/own_strategy_test.c, of the CUDA backend: on three devices. */
#include "three_devices.h"

#include "ext/strategy/own_strategy_test.c"
