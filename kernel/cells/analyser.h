/* libclang's view of a cell: its diagnostics, and the types of its definitions. One translation unit is kept and
 * parsed again for each cell; its leading includes are parsed once. Read first: unit.h. */
#ifndef KERNEL_CELLS_ANALYSER_H
#define KERNEL_CELLS_ANALYSER_H

#include "cells/text.h"

#include <clang-c/Index.h>
#include <stdint.h>

typedef struct analyser {
    CXIndex index;
    CXTranslationUnit unit; /* NULL before the first parse */
    bool plain; /* the unit was parsed without a preamble */
    names flags;
    struct standard *standard; /* which header declares what (standard.h); NULL until somebody asks */
    char *path; /* the name under which libclang knows the text: a file that is there, or it keeps no preamble */
} analyser;

typedef struct type_facts {
    char *spelling; /* as clang writes it; the caller frees */
    size_t size, align;
    uint64_t layout; /* differs when the size, a member, or a member's place differs */
    bool is_array, is_function;
    bool is_const, is_volatile, is_atomic; /* of an array: of its elements; is_atomic: the type itself */
    char *plain; /* its spelling in C's own words alone, without a typedef or a tag; NULL: it has none. The caller frees
                  */
    bool writable; /* can be written again from its spelling: no unnamed struct in it */
} type_facts;

/* `folder`: where it keeps a file of its own. */
void analyser_open(analyser *a, const names *flags, const char *folder);
void analyser_close(analyser *a);

/* Parses `source`. False when libclang itself gave up. */
bool analyser_parse(analyser *a, const char *source, size_t size);

bool analyser_has_errors(const analyser *a);

/* The cursor of the declaration whose name stands at `offset` of the text. */
CXCursor analyser_cursor(const analyser *a, size_t offset);

/* The type of what is declared there. False (and nothing to free) when nothing is. */
bool analyser_type(const analyser *a, size_t offset, type_facts *facts);

typedef struct value_facts {
    CXType type; /* CXType_Invalid when there is no expression; of a bit-field, the type it is declared with */
    bool bit_field;
    char prefix; /* L, u or U of a wide string literal, which its type does not tell from numbers; else 0 */
} value_facts;

/* Facts about the trailing expression that is cast to void at `offset`. */
value_facts analyser_value(const analyser *a, size_t offset);

type_facts facts_of(CXType type);

/* C that gives the value of a const scalar which is known when compiled; NULL when it is not. The caller frees. */
char *constant_of(CXCursor variable);

/* Adds keys ("o:RED") of the enum constants that are declared at that cursor. */
void add_enum_constants(CXCursor at, names *keys);

/* Does the body of that function (NULL: of any) name that variable of the file's scope? */
bool analyser_refers(const analyser *a, const char *function, const char *variable);

/* A libclang string as an own copy. */
char *clang_text(CXString string);

#endif
