/* The session: the state that the parts of the kernel share. Read first: front.h, cells/unit.h, worker_process.h. */
#ifndef KERNEL_SESSION_H
#define KERNEL_SESSION_H

#include "cells/analyser.h"
#include "cells/compile.h"
#include "cells/symbols.h"
#include "cells/unit.h"
#include "values/value.h"
#include "display.h"
#include "front.h"
#include "history.h"
#include "export/journal.h"
#include "worker_process.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

struct debugger;
struct magic;

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

struct session {
    front front;
    output out;
    display display;
    worker_process worker;
    struct ranks *ranks; /* ranks/ranks.h; NULL: none were ever started */
    analyser analyser;
    analyser
        helper; /* help's own, which takes the place of `analyser` meanwhile; index NULL: not opened yet (help.h) */
    compiler compiler;
    symbols *symbols;
    history history;
    journal journal;
    struct debugger *debugger;
    const struct magic *magics; /* magics/magics.h: those that there are, up to one without a name */
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
    bool ranks_initialised; /* a cell for the present ranks has kolo_init() in it */
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

#endif
