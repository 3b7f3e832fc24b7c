/* Unwinds the stack from a signal handler, or from a call, up to the cell's entry. It tells whose code each frame runs,
 * and whether the frames can be abandoned without leaving a lock or the heap in a broken state. Read first: worker.h.
 */
#ifndef KERNEL_WORKER_UNWIND_H
#define KERNEL_WORKER_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct unwound {
    uintptr_t start; /* frames before this program counter are the handler's own; 0: there are none */
    bool started;
    size_t depth, library_depth;
    bool library_named, library_allowed;
    bool in_cell; /* a frame of the cell's has been seen: the handler's own come before */
    bool unsafe, foreign, reached_entry; /* foreign: code that may have no unwind tables */
    uintptr_t cell; /* where the innermost frame of the cell's will go on */
    uintptr_t last; /* the last place that was seen to be the cell's: a recursion comes through it again and again */
    size_t cells; /* frames of the cell's */
} unwound;

/* "printf" of "_IO_printf": the C library has its functions under several names, and the loader tells any of them. */
const char *plain_name(const char *name);

/* Where the cells' objects lie. */
const char *cells_folder(void);

/* Looks up the names that unwinding compares with: a signal handler must not call dlsym(). */
void unwind_prepare(void);

/* Unwinds from the frame with that program counter (0: from the caller) outwards, and notes the frames in `running`.
 */
unwound unwind_stack(uintptr_t start);

/* Is every frame up to the cell's entry the cell's own, or a call of the C library that holds nothing? */
bool may_leave(const unwound *w);

#endif
