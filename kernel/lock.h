/* The session's two locks. A cell's thread holds both until the cell has ended. While it waits for a compiler, the
 * worker or ranks it lets `knowledge` go, so that help is given also while a cell runs. Read first: session.h. */
#ifndef KERNEL_LOCK_H
#define KERNEL_LOCK_H

#include "session.h"

void cell_begins(session *s);
void cell_ended(session *s);
void cell_waits(session *s);
void cell_goes_on(session *s);
/* Takes `knowledge`, and takes `busy` too unless a cell runs. True: it has both, so the worker may be asked. */
bool help_enters(session *s);
void help_leaves(session *s, bool alone);
/* Takes both for ever. False when another thread of the session's own holds them for longer than it may. */
bool last_enters(session *s);

#endif
