/* The exit status of a cell that did not return, here or at a rank. Read first: worker_process.h, worker/protocol.h. */
#ifndef KERNEL_EXIT_STATUS_H
#define KERNEL_EXIT_STATUS_H

#include "worker_process.h"

enum { STATUS_GONE = 100 }; /* beside worker/protocol.h's: the process has ended without a word */

typedef struct exit_status {
    int status, code; /* an `exit_kind`, and what goes with it */
    uint64_t address; /* of a fault, or of the value of a cell that returned */
    uint64_t size; /* of the value */
    const char *frames; /* packed as in worker/protocol.h, with STATUS_UNDEFINED's or _REFUSED's text before them */
    size_t frames_size;
    const char *reason; /* why the supervisor ended it, a sentence; NULL: it did not */
    bool thread; /* on a thread that cells had started */
    bool survived; /* its process lives on */
    bool before; /* its process ended before the cell ran */
} exit_status;

/* Of the worker that has just answered a run, or (`died`) has gone instead. Points into the worker's payload. */
exit_status exit_status_of(const worker_process *w, bool died);

typedef struct frame {
    const char *object, *offset, *symbol;
} frame;

/* Takes the next frame of a packed list and moves `at` behind it. False at the list's end, and where it is cut. */
bool frame_next(const char **at, const char *end, frame *f);

#endif
