/* The timeline of the job, from the environment: see kolo_start_timeline() in kolo_tools.h. */
#ifndef KOLO_RUNTIME_TIMELINE_H
#define KOLO_RUNTIME_TIMELINE_H

#include "comm/comm.h"

/* Begins a recording if KOLO_TIMELINE names a file and none has begun. All ranks call it. */
kolo_status kolo_timeline_begin_by_environment(void);
/* Ends a recording with the job. failed: this rank has failed, so that it meets the others no more; then the trace is
 * made of the files that are there, unless kolorun does it when all ranks have ended. */
kolo_status kolo_timeline_finish(bool failed);

/* clocks.c. The offset of rank 0's clock to this rank's, in nanoseconds, by the messages of a round trip, and the most
 * by which it may be wrong. Both are 0 on rank 0's own host, whose processes share a clock. All members call it. where:
 * names the clock that clock() reads. */
kolo_status kolo_clock_offset(kolo_comm *comm, const char *where, int64_t (*clock)(void), int64_t *offset,
                              int64_t *error);
/* The name of this process's CLOCK_MONOTONIC: processes with the same name read the same clock. */
#define KOLO_CLOCK_NAME 128
void kolo_clock_name(char name[KOLO_CLOCK_NAME]);

#endif
