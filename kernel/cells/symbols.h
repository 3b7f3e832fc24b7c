/* The definitions of the session: macros, types, functions and variables, each with the text by which a later cell sees
 * it and the names it depends on. A later cell's unit holds only what that cell uses, so a unit does not grow with the
 * session. Read first: split.h.
 *
 * Link names. In C a function is `f` for ever; in the loaded objects every caller says `f$1`, a stub that jumps through
 * `f$1$slot`, and the definition made by cell 7 is `f$1$7`. Defining `f` again fills the slot anew: earlier callers,
 * and pointers taken earlier, use the new one. A changed signature, or a variable of a changed type, gets `f$2`. */
#ifndef KERNEL_CELLS_SYMBOLS_H
#define KERNEL_CELLS_SYMBOLS_H

#include "cells/text.h"

#include <stdint.h>

typedef enum entity_kind { ENTITY_MACRO, ENTITY_TYPE, ENTITY_FUNCTION, ENTITY_VARIABLE } entity_kind;

typedef struct entity {
    entity_kind kind;
    names defines; /* keys: "m:" macro, "o:" ordinary name, "t:" tag */
    names uses; /* plain names in its text */
    names dependencies; /* those in its declaration, once the session has it: all that a later cell must see with it */
    names forward_dependencies; /* of a type: "struct node" where a declaration of it is enough (needs.h) */
    char *declaration; /* as a later cell sees it, with its #line */
    char *shown; /* as the user wrote it; a function without its body */
    char *definition; /* a function's whole text with its #line, to compile it again; NULL when only declared */
    char *name; /* of a function or variable, the bare name; NULL else */
    char *link; /* NULL: not the session's (a library's function, a macro, a type) */
    char *type; /* of a function or variable */
    char *plain; /* the same in C's own words alone; NULL: it has a typedef's or a tag's name in it */
    uint64_t layout; /* of a variable: a fingerprint of its type, members included */
    size_t size, align;
    bool defined;
    bool written; /* `type` can be written again as it is spelled */
    char *constant; /* of a const whose value is known when compiled: C that gives it; NULL else */
    char *unfit; /* of a function: why it cannot run as things are; NULL: it can. Calling it says so */
    bool natural; /* of a variable: its storage is the compiler's, as in any C file, not the kernel's */
    bool threads; /* each thread has its own */
    bool is_const, is_volatile, is_atomic; /* of a variable's type, or of an array's elements; is_atomic: the type */
    bool of_outs; /* outs.h has made it */
    bool lost; /* with the process that held its value */
    bool at_ranks; /* a cell for the ranks has given it its value there; here it has had none */
    bool gone; /* while a cell is built: its changes leave this variable without a meaning */
    unsigned serial; /* the cell that made it */
    unsigned mark; /* of the unit that has emitted it */
} entity;

typedef struct symbols symbols;

symbols *symbols_open(void);
void symbols_close(symbols *s);

entity *entity_new(entity_kind kind, unsigned serial);
void entity_free(entity *e);

/* By key. NULL when there is none. */
entity *symbols_find(const symbols *s, const char *key);
entity *symbols_find_bytes(const symbols *s, char space, const char *name, size_t size);

/* Takes the entity in; whatever had one of its names goes. */
void symbols_put(symbols *s, entity *e);
void symbols_drop(symbols *s, const char *key);

/* Calls `visit` for each entity, in the order in which they were put in. */
void symbols_each(const symbols *s, void (*visit)(entity *e, void *closure), void *closure);

/* Adds the definitions of its macros, in that order. */
void symbols_add_macros(const symbols *s, text *into);

/* A function's link name and the type it stands for. Kept for good: a type that comes back gets its name back. */
void symbols_remember_link(symbols *s, const char *link, const char *name, const char *type);
/* The link name of `name` with that type, or NULL. */
const char *symbols_link_of(const symbols *s, const char *name, const char *type);
/* The name in C of a link name, and its type through `type`. NULL when no function has that link name. */
const char *symbols_name_of(const symbols *s, const char *link, const char **type);

/* The `#pragma pack` lines that are in force at the end of the last cell, outermost first. */
names *symbols_packing(symbols *s);

/* The pieces that the session has from the user's headers, through cells that ran here or on the ranks: headers.h. */
names *symbols_headers(symbols *s, bool at_ranks);

/* Drops a variable that a change of its type has ended; did one of that name ever end so? */
void symbols_end(symbols *s, const char *key);
bool symbols_ended(const symbols *s, const char *name);

/* How often a link name for `name` was given out: the next is name$N. Never reused, even after a drop. */
unsigned symbols_next_version(symbols *s, const char *name);

#endif
