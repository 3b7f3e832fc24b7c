/* The session: what the parts of the kernel share. Read first: front.h, cells/unit.h, machine.h. */
#ifndef KERNEL_SESSION_H
#define KERNEL_SESSION_H

#include "cells/analyse.h"
#include "cells/compile.h"
#include "mistakes/diagnose.h"
#include "cells/symbols.h"
#include "cells/unit.h"
#include "values/value.h"
#include "display.h"
#include "front.h"
#include "history.h"
#include "export/journal.h"
#include "machine.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

struct debugger;

/* All zero: forgotten, and to be passed over. */
typedef struct load {
    char *path;     /* of the cell's shared object */
    char *payload;  /* of the MESSAGE_LOAD that loaded it */
    size_t size;
    size_t fills;   /* slots whose function is this one's */
    bool founds;    /* it holds stubs or variables */
} load;

typedef struct source {
    char *name, *text; /* "In[3]" and what was in it */
    unsigned serial;   /* of the first thing that it may have defined; 0: a program's */
    bool ran, reset;   /* without an error; before the last %reset */
} source;

/* How a cell, or a part of one, ended. */
typedef struct result {
    bool failed;
    char *name, *value; /* of the error: its kind and one sentence */
    text traceback;     /* lines, newline-separated */
    json_t *payload;    /* of the reply; NULL: none */
} result;

struct ended;

struct session {
    front front;
    output out;
    display display;
    machine machine;
    struct ranks *ranks; /* ranks/ranks.h; NULL: none were ever started */
    analyser analyser;
    analyser helper; /* in the other's place while help is sought; its index is NULL before: help.h */
    compiler compiler;
    symbols *symbols;
    history history;
    journal journal;
    struct debugger *debugger;
    char *prefix;      /* the session's includes, and the macros before them */
    char *folder;      /* temporary files */
    char *executable, *library, *launcher; /* kolo-kernel's own path, libkolo.so, kolorun */
    names base_flags, first_flags; /* of clang: now, and before the user's */
    char *last_folder; /* where %cd - goes; NULL: nowhere yet */
    load *loads;
    size_t load_count, load_capacity;
    void *fillings; /* loads.c */
    source *sources;
    size_t source_count, source_capacity;
    names manuals; /* pages that were asked for: manual.c */
    unsigned count, serial;
    bool allow_stdin, silent;
    bool ranks_initialised; /* a cell for the ranks that there are now has named kolo_init() */
    bool input_given; /* by this cell, for the next one: %%stdin */
    unsigned word_line, word_column; /* where the words of the magic that runs stand in its cell; from 1 and 0 */
    struct outs *outs; /* outs.h; NULL: none was kept yet */
    struct widgets *widgets; /* widgets/widgets.h */
    json_t *value; /* the bundle of the last trailing expression; NULL: none */
    pthread_mutex_t busy; /* lock.c: of the processes, what they print, and the compiler */
    pthread_mutex_t knowledge; /* of symbols, sources, history and the analysers; taken after `busy` */
    pthread_t cell_thread; /* while cell_runs */
    atomic_bool cell_runs;
    bool cell_waiting; /* the cell's thread has let `knowledge` go: the worker answers nobody; by `knowledge` */
    pthread_t idler;      /* publishes what is printed between cells */
    bool idling;
    atomic_bool closing;
};

/* lock.c. A cell's thread holds both locks until the cell has ended. While it waits for a compiler, the worker or ranks
 * it lets `knowledge` go, so that help is given also while a cell runs. */
void cell_begins(session *s);
void cell_ended(session *s);
void cell_waits(session *s);
void cell_goes_on(session *s);
/* Takes `knowledge`, and `busy` too unless a cell runs: true, and the worker may be asked. */
bool help_enters(session *s);
void help_leaves(session *s, bool alone);
/* Takes both for ever. False when a cell holds them for longer than it may. */
bool last_enters(session *s);

/* run.c: one piece of C. `name` is how its messages call it; first_line: of the cell, where it stands in a cell. */
result run_c(session *s, const char *code, const char *name);
/* The same for code that was made of what the user wrote: `shown` is what messages quote, at the lines that #line
 * gives. */
result run_shown(session *s, const char *code, const char *shown, const char *name);
/* May libclang read this in the kernel's process (trial.h)? False, and why in `r`. `name`: of the cell. */
bool readable(session *s, const text *what, const char *name, result *r);
/* Makes sure of a worker with every cell loaded. False when none can be had. */
bool ensure_worker(session *s);
/* Starts the worker anew, as after a crash: functions come back, variables are zero. */
bool replace_worker(session *s, bool gently);
/* A program in the worker's place: its wait status through `status`. */
result run_program_in_worker(session *s, char *const *arguments, int *status);

/* session.c: an error's traceback as the protocol has it. */
json_t *traceback_lines(const result *r);

/* loads.c: what cells have defined, object by object. Takes `payload`. */
void loads_add(session *s, const char *path, text *payload, bool founds);
/* The newest has run: it is forgotten when nothing of it lasts. */
void loads_settle(session *s);
/* Into a new worker. */
bool loads_again(session *s);
void loads_clear(session *s);

/* report.c */
void result_free(result *r);
result error_result(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What to say of a cell that did not return, wherever it ran. */
result ended_result(session *s, const struct ended *e);
/* The same of a cell in the session's worker, and what was lost with it. `survived`: the worker lives on. */
result ending_result(session *s, bool survived);
/* Puts a new worker in the old one's place, and says what that has cost. */
void add_loss(session *s, text *into);
/* Of an object that could not be loaded: `why` is the loader's word. */
result load_failure(session *s, const char *why);
/* "In[3]:2", the innermost line of a cell's among these frames, or NULL; the caller frees. */
char *place_of_frames(session *s, const char *frames, size_t size);
/* For diagnose.h: `closure` is the session. */
char *source_line_of(void *closure, const char *name, unsigned line);
cell_fate fate_of(void *closure, const char *cell_name);

/* The memory of the session's worker, for value.h. */
memory worker_memory(session *s);

/* Where an executable of that name is, by PATH; NULL: nowhere. The caller frees. */
char *in_path(const char *name);

/* Prints on the cell's own streams. */
void print_out(session *s, const char *words);
void print_error(session *s, const char *words);

#endif
