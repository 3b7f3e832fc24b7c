/* The worker: loads compiled cells and runs them on its main thread. Read first: protocol.h.
 * Its exported names, kolo_cell_*, are called from compiled cells. */
#ifndef KERNEL_WORKER_WORKER_H
#define KERNEL_WORKER_WORKER_H

#include "worker/protocol.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

/* descriptors: control, stdin, stdout, stderr. Serves until the kernel closes the control socket; the exit status. */
int worker_main(uint64_t token, const int *descriptors);

/* The cell that runs, for signal handlers. Only the worker's main thread writes it. */
typedef struct running_cell {
    volatile sig_atomic_t active;   /* a cell's code runs, and `out` can be jumped to */
    volatile sig_atomic_t asked;    /* how often somebody has asked where the cell is */
    sigjmp_buf out;
    volatile sig_atomic_t status, code;
    void *volatile address;
    pid_t process;                  /* the worker's: a forked child is another */
    pthread_t thread;               /* its main one */
    void *entry;                    /* the frame below which cells run, and how much stack they have */
    size_t stack_size;
    volatile pid_t program;         /* a launched program's process group, or 0 */
    char *frames;                   /* packed, of the last fault */
    size_t frames_size;
    volatile sig_atomic_t smashed;  /* the stack has been written over: `missing` says it */
    const char *volatile missing;   /* the function that was called and never defined; what was refused */
} running_cell;

/* Bytes before the frames, of `missing` with its end; and behind them, of the last call that gave NULL (checks.c). */
enum { MISSING_SHOWN = 501, NULL_SHOWN = 603 };

extern running_cell running;

/* Does a cell run, and on the thread that calls? worker.c */
bool on_cell_thread(void);

/* recover.c: signal handlers on a stack of their own. They leave a faulty cell where that is safe. */
void recover_prepare(void);
/* Called from the cell's thread: leaves the cell with this status when every frame above allows it; returns otherwise.
 */
void recover_from_call(int status, int code);
/* Notes the frames seen from here, and says whether the cell could be left. */
bool record_frames(void);
/* Tells the kernel how the process is about to end. */
void last_words(int status, int code, void *address);
/* Tells the kernel so, and ends the process by the signal. */
void die_of(int number, void *address);
/* The same for a status that running.missing explains. */
void die_refused(int status, int number, void *address);
/* Leaves the cell with such a status, or ends the process where it cannot be left. */
_Noreturn void leave_refused(int status);

/* calls.c */
int run_program(char *const *arguments);
/* Calls the functions that cells have registered with atexit(). */
void run_exit_handlers(void);

/* restore.c: puts the process back into the state in which each cell begins. */
void remember_process(const struct rlimit *descriptors);
/* The standard streams go to these descriptors. */
void restore_process(int input, int output, int error);
/* After a cell: ends its timers and lifts its limits, which would hinder the worker's own work. */
void relax_process(void);
/* Releases the locks of the standard streams that abandoned frames held. */
void release_streams(void);
void flush_output(void);
bool is_standard_stream(const FILE *stream);

/* descriptors.c: where the worker's own go, and what limit on their number that leaves to cells. */
enum { OWN_DESCRIPTORS = 3 };
rlim_t place_descriptors(struct rlimit *limit);
int keep_descriptor(int descriptor, rlim_t place);

/* limits.c: makes pages writable again that a cell has made unwritable. */
void open_memory(void);

/* signals.c */
void reserve_signals(void);
void keep_signal(int number, const struct sigaction *action); /* the action in place of SIG_DFL from now on */
bool signal_is_default(int number);
void take_signal(int number, const struct sigaction *action); /* one of the worker's own too */
void stop_timers(void);

#endif
