/* The starts of a job: one, and up to --restarts more when it fails. */
#ifndef KOLO_LAUNCH_STARTS_H
#define KOLO_LAUNCH_STARTS_H

#include "launch/options.h"

/* Starts the job, and starts it again after a failure. Returns the exit code of the last start. */
int starts_run(const struct launch_options *options);

#endif
