/* A look at the stack, from a handler or a call up to the cell's entry: whose frames are these, and is anything left
 * broken behind where they are abandoned? Read first: worker.h. */
#ifndef KERNEL_WORKER_WALK_H
#define KERNEL_WORKER_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct walk {
    uintptr_t start; /* frames before this program counter are the handler's own; 0: there are none */
    bool started;
    size_t depth, library_depth;
    bool library_named, library_allowed;
    bool in_cell; /* a frame of the cell's has been seen: the handler's own come before */
    bool unsafe, foreign, reached_entry; /* foreign: code that may not know how to be walked */
    uintptr_t cell; /* where the innermost frame of the cell's will go on */
    uintptr_t last; /* the last place that was seen to be the cell's: a recursion comes through it again and again */
    size_t cells;   /* frames of the cell's */
} walk;

/* Where the cells' objects lie. */
const char *cells_folder(void);

/* Finds what a walk needs to know, which a handler must not look for. */
void walk_prepare(void);

/* Walks, from the frame with that program counter (0: from the caller) outwards, and notes the frames in `running`. */
walk look_back(uintptr_t start);

/* Is every frame up to the cell's entry the cell's own, or a call of the C library that holds nothing? */
bool may_leave(const walk *w);

#endif
