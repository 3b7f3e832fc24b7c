/* One piece of C on its way from source to a loaded object. Read first: session.h, cells/unit.h, cells/symbols.h. */
#ifndef KERNEL_BUILD_H
#define KERNEL_BUILD_H

#include "result.h"
#include "session.h"

/* A function of an earlier cell, or of this one, that cannot run once the cell is committed; and the reason. */
typedef struct stale_function {
    entity *function;
    char *why;
} stale_function;

enum { MOST_SIZES = 64 }; /* of arrays in one declaration */

/* A stage of a cell, for run_part. All zero: a whole cell. */
typedef struct part {
    bool quiet;                      /* its warnings have been shown */
    const origins *from;             /* where its lines come from */
    const bound *given;              /* array sizes that are known by now */
    size_t given_count;
    const names *asked;
    long *values; /* C to evaluate at the end, and where to */
} part;

/* A variable whose typedef gets another meaning, with its declaration before that. */
typedef struct retyped {
    entity *variable;
    char *type, *declaration;
    names dependencies;
} retyped;

typedef struct build {
    session *s;
    parsed_cell cell;
    value_form form;
    value_facts value;
    text assembly;   /* stubs and storage */
    text bindings;   /* slot, definition, … as MESSAGE_LOAD has them */
    link_name *links;
    size_t link_count, link_capacity;
    names owned;     /* strings that `links` points to */
    names dropped;   /* keys of variables that go when the cell is committed */
    retyped *kept;   /* put back when the cell fails */
    size_t kept_count, kept_capacity;
    names missing;   /* variables that are declared and that nothing defines yet */
    stale_function *stale;
    size_t stale_count, stale_capacity;
    text notes;      /* what the cell does to earlier ones: said when it is committed */
    bool staged;     /* there are arrays of run-time size: the cell runs in stages (stages.c) ... */
    size_t stage;    /* ... and this is the first such piece */
    bool committed;
    bool quiet;      /* warnings have been shown already */
    const struct part *which;
    bool valued;     /* the sizes it was asked for are there */
    unsigned mark;
} build;

/* analyse.c: parses, prints diagnostics, and finds the functions and variables of earlier cells that the cell changes.
 * False: `r` is the error, and the session is as it was. */
bool analyse(build *b, result *r);

/* absent.c: names the variables that the cell reads and whose values are not here. */
void note_absent_values(build *b);

/* keep.c: before a parse, writes variables whose typedef the cell changes by the type that they have. */
void keep_types(build *b);
/* Puts back what that has changed, unless the cell has been committed. */
void free_kept(build *b);
/* How later cells will see that variable; the caller frees. */
char *variable_declaration(const entity *e);

/* Writes the declarations by which later cells see what this cell declares. */
void declare_items(build *b);

/* naming.c: the link names of all that the cell brings and uses, its stubs and its storage. */
void name_all(build *b);
/* Does a library that is loaded define the name? */
bool library_has(session *s, const char *name);

/* run.c: compiles what has been named, and loads it; its object's path, the caller's. False: `r` is the error. */
bool build_and_load(build *b, char **path, result *r);
void build_free(build *b);

/* run.c: a cell, or one stage of it. */
result run_part(session *s, const char *code, const char *name, const part *which);

/* stages.c: a cell whose piece `first` is the first with an array of run-time size. */
result run_in_stages(session *s, const parsed_cell *whole, size_t first, const char *name);

#endif
