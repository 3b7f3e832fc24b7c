/* The state that the debugger's parts share. Read first: debugger.h. */
#ifndef KERNEL_DEBUG_STATE_H
#define KERNEL_DEBUG_STATE_H

#include "debug/debugger.h"
#include "debug/places.h"

struct debugger {
    session *s;
    pthread_mutex_t lock; /* guards all that follows. A thread with the session's `busy` may wait for it; a thread that
                             holds it may only try `busy` */
    places places;
    adapter *adapter; /* NULL: not attached */
    char *problem; /* why it could not be attached; NULL when the user has been told */
    atomic_bool on; /* the front end's debugger is switched on */
    bool noted, recompiled; /* earlier cells have their places; their functions can be stepped through */
    bool running; /* a cell runs */
    bool stopped; /* the cell is stopped, and the front end has been told */
    bool pausing; /* the front end has asked for a stop that has not come yet */
    bool passing; /* the cell was interrupted: it passes over breakpoints until it ends */
    json_int_t thread; /* the one that stopped last */
    json_int_t still; /* a frame of the worker while it is held between cells */
    json_int_t step_in; /* the breakpoint at every function that a step may lead into; 0: none */
    unsigned steps_out; /* how often one step had to leave code that is not the learner's */
    json_t *whole_cells; /* by number, the frames in a cell's code outside of functions */
    json_t *inspected; /* the last answer to inspectVariables */
    bool fresh; /* no cell has run since that answer */
    unsigned evaluations;
    json_int_t sequence;
};

enum { PATIENCE = 5 }; /* seconds that lldb-dap may take for an answer */

/* attach.c. Both with the lock held. The sentence to be told, or NULL: attached. */
char *attach(debugger *d);
void detach(debugger *d);
/* Sets the breakpoints of a path for the cells that have run with that code; lldb's response, or NULL. */
json_t *set_breakpoints(debugger *d, const char *path);

/* debugger.c: breakpoints work in cells that ran while the debugger was off, and their variables can be read. */
void note_earlier_cells(debugger *d);

/* recompile.c: compiles every function of earlier cells again, with debug information and without optimisation. */
void compile_again(session *s);

/* events.c */
void take_event(void *self, adapter *from, json_t *event);
/* Takes over `body`. */
void publish_event(debugger *d, const char *name, json_t *body);
/* Gives lldb a command in its own language, in a frame (negative: in any). Its output, which the caller frees. */
char *lldb_command(debugger *d, const char *command, json_int_t frame);
/* The cell that a frame is in, NULL: none. */
const cell_place *place_of_frame(const debugger *d, const json_t *frame);
/* Is it the code of a cell outside of functions? */
bool whole_cell(const json_t *frame);

/* answers.c: an answer with `body`, which it takes over; a refusal, likewise. */
json_t *accepted(debugger *d, const json_t *request, json_t *body);
json_t *refused(debugger *d, const json_t *request, const char *why);
/* Asks lldb-dap the same; `arguments` are taken over. Its answer, as one to `request`. */
json_t *forwarded(debugger *d, const json_t *request, json_t *arguments);

/* variables.c */
json_t *answer_stack_trace(debugger *d, const json_t *request);
json_t *answer_scopes(debugger *d, const json_t *request);
json_t *answer_variables(debugger *d, const json_t *request);
json_t *answer_evaluate(debugger *d, const json_t *request);
json_t *answer_inspect_variables(debugger *d, const json_t *request);
json_t *answer_rich_inspect(debugger *d, const json_t *request);

#endif
