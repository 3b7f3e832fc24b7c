/* Checks of options that need no hosts. */
#ifndef KOLO_LAUNCH_OPTIONS_CHECK_H
#define KOLO_LAUNCH_OPTIONS_CHECK_H

#include "launch/options.h"

/* Refuses options that contradict each other or have impossible values. Returns KOLORUN_GO_ON, or an exit code after
 * one sentence. */
int options_check(const struct launch_options *options);

#endif
