/* A cell turned into a translation unit: what the cell uses of the session, its own definitions at file scope, and one
 * function, In_N, that runs its statements and initialisers in order. Every fragment stands at its own line and column
 * (#line, padding), so that clang's locations are the cell's. Read first: split.h, symbols.h.
 *
 * Variables are only ever `extern` in C; their storage, like the functions' stubs, is a few lines of assembler at the
 * unit's end, so an initialiser need not be constant, a const can be written once, and a re-run keeps the address. */
#ifndef KERNEL_CELLS_UNIT_H
#define KERNEL_CELLS_UNIT_H

#include "cells/headers.h"
#include "cells/split.h"
#include "cells/symbols.h"

/* How a unit passes on the value of its trailing expression. */
typedef enum value_form {
    VALUE_PROBE, /* only its type is wanted: nothing is evaluated yet */
    VALUE_NONE,  /* void: evaluate it */
    VALUE_PLAIN,
    VALUE_BITS,  /* a bit-field, which has no address */
    VALUE_OBJECT, /* a handle of libkolo's, which shows itself: parsed_cell.shower */
    VALUE_RECIPE, /* the same of a struct by value: a layer, an optimizer */
    VALUE_LARGE, /* a struct too large for the stack */
    VALUE_ARRAY,
    VALUE_RUNTIME_ARRAY, /* its size is known when it is there */
    VALUE_OPEN_ARRAY,    /* extern int a[]: its size is known elsewhere */
} value_form;

/* The size of an array that is only known when the cell runs: `[` at that byte of the cell holds the value. */
typedef struct bound {
    size_t bracket;
    long value;
    bool known; /* else `value` stands in for it */
} bound;

/* A thing that the cell defines or declares. */
typedef struct parsed_item {
    entity *what;
    size_t piece;       /* of the cell; several items may share one */
    size_t declarator;  /* of a variable or prototype: which of the declaration's; none else */
    size_t offset;      /* of its name in the unit: where libclang is asked for its type */
    size_t open_size;   /* elements of `[]`, once known */
    size_t init_offset; /* of the initialiser's variable, for the size of `[]` */
    size_t align_offset; /* of what tells the alignment that it asks for; 0: its type's */
    bool has_value, open_array;
    bool aligned; /* it says how it wants to be aligned */
    bool constant; /* a const scalar with an initialiser that may be known when compiled */
    bool is_array; /* known after a first parse */
    bool constructor; /* a function that runs when it is defined */
    bool computed; /* a large array whose initialiser is no constant */
} parsed_item;

typedef struct parsed_cell {
    cell split;
    char *source; /* of the cell, owned */
    char *name;   /* "In[3]" */
    const origins *from; /* where its lines come from; NULL: all from the cell. Not owned */
    char *function; /* "In_3": what runs it; __func__ shows it */
    unsigned serial;
    parsed_item *items;
    size_t count, capacity;
    text prefix; /* the session's prefix with this cell's includes */
    bool has_code, has_value;
    bool c23; /* `auto` takes its type from the value, and there is `constexpr` */
    const char *shower; /* for VALUE_OBJECT and _RECIPE: the function of libkolo's that makes its bundle; not owned */
    size_t value_offset; /* of the trailing expression in the last unit */
    entity **again; /* functions of earlier cells to compile again (dependents.h); the session's */
    size_t again_count;
    entity **recheck; /* variables of earlier cells whose type may have changed; the session's */
    size_t recheck_count;
    size_t *recheck_offset; /* of their names in the unit */
    names undone;           /* macros of earlier cells whose names this one gives to functions, variables or types */
    names packing;          /* `#pragma pack` lines that earlier cells left in force */
    bound *bounds;          /* of arrays of run-time size */
    size_t bound_count, bound_capacity;
    void *index; /* of the items by key: parsed_cell_find */
    names asked;            /* array sizes to evaluate when the cell has run: C, each on a line of its own */
} parsed_cell;

/* The parts of a unit's text and where they begin. */
typedef struct unit {
    text source;
    size_t prefix_size;  /* the leading includes, which a precompiled header can stand for */
    size_t value_offset; /* where VALUE_PROBE casts the trailing expression to void */
    unsigned mark;
} unit;

/* Gives what stands between the cell's own lines to no line at all: a debugger steps through it unseen. */
void unit_hide_glue(unit *u);

/* 3 of "In[3]". False: the name is no cell's, and `number` stays as it is. */
bool cell_number(const char *name, unsigned *number);

/* Splits a cell and lists its definitions. Messages call it `name`. */
parsed_cell parsed_cell_of(const char *source, const char *name, unsigned serial, const char *session_prefix,
                           const symbols *session);
/* The same of a cell with headers' text in it. */
parsed_cell parsed_cell_from(const char *source, const char *name, unsigned serial, const char *session_prefix,
                             const symbols *session, const origins *from);
void parsed_cell_free(parsed_cell *parsed);
/* `#line N "file"` for a line of the cell's source. */
char *line_directive(const parsed_cell *parsed, unsigned line);

/* The item that the cell defines by that key ("o:name"), or NULL. */
parsed_item *parsed_cell_find(const parsed_cell *parsed, const char *key);

/* Takes back the macros of earlier cells that stand where the cell defines something else of that name, so that the
 * cell is no C as it stands. False: there are none. */
bool parsed_cell_undo_macros(parsed_cell *parsed, const symbols *session);

/* Writes the unit. `assembly` goes to its end (NULL: none). The session's entities that it shows get `mark`. */
unit unit_of(parsed_cell *parsed, const symbols *session, value_form value, const char *assembly);

/* The token after a compound literal, `(type){ … }`, that begins at token `at`; 0 when none does. */
size_t literal_end(const parsed_cell *parsed, size_t at, size_t last);

/* The identifiers of a piece of text, each once. */
void used_names(const char *source, const token *tokens, size_t first, size_t last, names *into);

#endif
