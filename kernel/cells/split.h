/* A cell's source in pieces: preprocessor lines, declarations, function definitions, statements, shell lines, and the
 * trailing expression whose value is shown. By tokens alone: C's one ambiguity, `a * b;`, is read as a declaration,
 * since as a statement it would do nothing; without its `;` at the cell's end it is a product.
 * Read first: lexer.h. */
#ifndef KERNEL_CELLS_SPLIT_H
#define KERNEL_CELLS_SPLIT_H

#include "cells/lexer.h"
#include "cells/text.h"

typedef enum piece_kind {
    PIECE_DIRECTIVE,
    PIECE_DECLARATION,
    PIECE_FUNCTION,
    PIECE_STATEMENT,
    PIECE_EXPRESSION, /* the last piece, without `;` */
    PIECE_BROKEN,     /* runs into the end of the cell, or begins with a stray bracket */
} piece_kind;

typedef struct piece {
    piece_kind kind;
    size_t first, last; /* tokens [first, last) */
    bool unfinished;    /* more must follow: see `open`, or its `;` or its operand is missing */
    bool open;          /* its brackets are not closed */
} piece;

typedef struct cell {
    const char *source; /* borrowed */
    token_list tokens;
    piece *pieces;
    size_t count, capacity;
    bool unbalanced; /* something is open at the end */
    bool stray;      /* a bracket closes what was never opened */
} cell;

cell cell_split(const char *source);
void cell_free(cell *c);

/* Which of ( ) [ ] { } a token is; 0 when it is none. */
char bracket_of(const char *source, const token *t);

/* The brackets that are open at the end, outermost first: their tokens. */
enum { BRACKETS_MOST = 200 }; /* those further in are passed over */
typedef struct bracket_stack {
    size_t open[BRACKETS_MOST];
    size_t depth;
} bracket_stack;
bracket_stack open_brackets(const char *source, const token_list *tokens);

/* The token after the bracket that closes the one at `at`; `limit` when it is never closed. */
size_t after_brackets(const char *source, const token *tokens, size_t at, size_t limit);

/* One declared thing of a declaration. Token indices; `none` where there is no such part. */
#define none ((size_t)-1)
typedef struct declarator {
    size_t first, name, last; /* the declarator without its initialiser */
    size_t value, value_last; /* the initialiser after '=' */
    size_t open_bracket;      /* of `[]` right after the name, where the size is left to the initialiser */
    bool is_function;
} declarator;

typedef struct declaration {
    size_t specifiers_last; /* the specifiers are [piece.first, specifiers_last) */
    bool is_typedef, is_extern, has_body; /* has_body: a struct, union or enum is defined in it */
    size_t untagged;                      /* the token after which an anonymous struct's tag would stand, or none */
    size_t old_style;                     /* of `f(a, b) int a; …`: its `(`; none where parameters have types */
    declarator *declarators;
    size_t count, capacity;
} declaration;

/* Takes a PIECE_DECLARATION, or the head of a PIECE_FUNCTION, apart. */
declaration declaration_of(const cell *c, const piece *p);
void declaration_free(declaration *d);

/* The tag that a struct, union or enum without a name gets, after what is declared with it, so that a later cell can
 * name it: unnamed_NAME. NULL where C has a name for it already, or nothing is declared. The caller frees. */
char *unnamed_tag(const cell *c, const declaration *d);
/* Writes such a tag in a message or a type as clang would have: (unnamed). In place. */
void hide_tags(char *message);

/* Adds the names that a piece defines, in C's name spaces: "o:name" for ordinary names, "t:name" for tags. */
void defined_names(const cell *c, const piece *p, names *into);

/* Words that are no part of a cell's declaration in the session: `static`, `inline`, … */
bool storage_word(const char *source, const token *t);

#endif
