/* Jupyter's debugger for cells: the front end's debug requests, answered through lldb-dap, which is attached to the
 * worker while the front end's debugger is on. Off (the default) it costs nothing.
 *
 * The front end knows a cell by a path that is made of a hash of its code; the debug information knows it as "In[3]",
 * as messages do. Requests and events are rewritten from the one into the other; compiled cells do not depend on it.
 * Read first: session.h, adapter.h. */
#ifndef KERNEL_DEBUG_DEBUGGER_H
#define KERNEL_DEBUG_DEBUGGER_H

#include "debug/adapter.h"
#include "session.h"

typedef struct debugger debugger;

debugger *debug_open(session *s);
/* Ends lldb-dap; a stopped worker goes on. */
void debug_close(debugger *d);

/* Is there an lldb-dap on this machine? */
bool debug_available(void);

/* One debug_request's content; the reply's. Any thread but the one that runs cells. */
json_t *debug_answer(debugger *d, const json_t *request);

/* On the thread that runs cells. A cell, as the front end sent it, is about to run under this name, or has run. */
void debug_cell_begins(debugger *d, const char *code, const char *name);
void debug_cell_ended(debugger *d);
/* To be called when a new worker has loaded every cell. */
void debug_worker_started(debugger *d);

/* Any thread: a stopped cell goes on, so that the interrupt, which is on its way, reaches it; breakpoints are passed
 * over until its end. */
void debug_interrupt(debugger *d);

#endif
