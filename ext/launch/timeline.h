/* The timeline of a job (kolo_start_timeline() in kolo_tools.h), for --timeline and KOLO_TIMELINE. The ranks write it
 * themselves; kolorun checks the file before, and makes the trace where the job has failed. */
#ifndef KOLO_LAUNCH_TIMELINE_H
#define KOLO_LAUNCH_TIMELINE_H

#include "launch/options.h"

/* Sets KOLO_TIMELINE to the file's absolute path. Returns KOLORUN_GO_ON, or an exit code after one sentence if the file
 * cannot be written. */
int timeline_prepare(const struct launch_options *options);
/* After the job: writes the trace of the files that ranks have left, and removes these. */
void timeline_finish(void);

#endif
