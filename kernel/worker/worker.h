/* The worker: loads compiled cells and runs them on its main thread. Read first: protocol.h.
 * Its exported names, kolo_cell_*, are called from compiled cells. */
#ifndef KERNEL_WORKER_WORKER_H
#define KERNEL_WORKER_WORKER_H

#include "worker/protocol.h"

#include <setjmp.h>
#include <signal.h>

/* descriptors: control, stdin, stdout, stderr. Serves until the kernel closes the control socket; the exit status. */
int worker_main(uint64_t token, const int *descriptors);

/* What a fault handler needs to know of the cell that runs. Only the worker's main thread writes it. */
typedef struct running_cell {
    volatile sig_atomic_t active;   /* a cell's code runs, and `out` can be jumped to */
    sigjmp_buf out;
    volatile sig_atomic_t ending, code;
    void *volatile address;
    pid_t process;                  /* the worker's: a forked child is another */
    volatile pid_t program;         /* a launched program's process group, or 0 */
    char *frames;                   /* packed, of the last fault */
    size_t frames_size;
    const char *volatile missing;   /* the function that was called and never defined */
} running_cell;

extern running_cell running;

/* step_out.c: signal handlers on their own stack; they leave a faulty cell where that is safe. */
void step_out_prepare(void);
/* Called from the cell's thread: leaves the cell with this ending when every frame above allows it; returns otherwise.
 */
void step_out_of_call(int ending, int code);
/* Locks of stdin, stdout and stderr that the abandoned frames held. */
void release_streams(void);
/* Packs the frames seen from here. */
void record_frames(void *context);
/* Sends what is known and dies of the signal. */
void die_of(int number, void *address);

/* calls.c */
int run_program(char *const *arguments);

#endif
