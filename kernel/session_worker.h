/* The worker that runs the session's cells. Read first: session.h. */
#ifndef KERNEL_SESSION_WORKER_H
#define KERNEL_SESSION_WORKER_H

#include "result.h"
#include "session.h"
#include "values/value.h"

/* Starts a worker with every cell loaded if there is none. False when none can be had. */
bool ensure_worker(session *s);
/* Starts the worker anew, as after a crash: functions come back, variables are zero. */
bool replace_worker(session *s, bool gently);
/* A program in the worker's place: its wait status through `status`. */
result run_program_in_worker(session *s, char *const *arguments, int *status);

/* The error of a cell that did not return, with a list of lost variables. `survived`: the worker lives on. */
result worker_exit_result(session *s, bool survived);
/* Puts a new worker in the old one's place, and lists the variables that are lost. */
void add_loss(session *s, text *into);

/* The worker's memory, for value.h. */
memory worker_memory(session *s);

#endif
