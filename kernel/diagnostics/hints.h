/* A plain hint for what beginners get wrong most often, one line after clang's message: "hint: every statement ends
 * with ';'". The tables in hints.c and foreign.c are meant to grow. Read first: diagnose.h, headers.h. */
#ifndef KERNEL_DIAGNOSTICS_HINTS_H
#define KERNEL_DIAGNOSTICS_HINTS_H

#include "diagnostics/diagnose.h"
#include "cells/lexer.h"

/* clang's message and its place. All borrowed. */
typedef struct complaint {
    const char *message;
    const char *insert; /* its first fix-it's text, "" when there is none */
    const char *source; /* of the whole cell or file; "" when it is not at hand */
    size_t at;          /* byte of `source`, where clang's caret is */
    unsigned line;
    const char *macro; /* the line that defines the macro from whose text it comes; NULL: none */
    analyser *analyser;
    const symbols *session;
    const char *cell_name;
    source_line earlier; /* finds lines of earlier cells */
    fate_finder fate_of;    /* and what became of them */
    void *closure;
    const token_list *tokens; /* of `source` */
    size_t here;              /* the token at `at`, or the first one behind it */
} complaint;

/* The hint, or NULL; the caller frees. */
char *hint_for(const complaint *c);

/* foreign.c: what a word or a character of another language is in C; NULL when it is none. */
char *foreign_word(const char *word);
bool of_other_language(const char *message); /* is the name that clang does not know one of another language? */
char *look_alike(const complaint *c);

/* bracket_hints.c: which bracket or part is missing. */
char *hint_missing_semicolon(const complaint *c);
char *hint_missing_brace(const complaint *c);
char *hint_missing_bracket(const complaint *c);
bool inside_for(const complaint *c); /* does the caret stand between a `for`'s parentheses? */

/* name_hints.c: about a name that clang does not know; NULL when the message is about none. */
char *hint_about_name(const complaint *c);

/* Is token `at` there and spelled so? Tokens are counted from the one at the caret. */
bool token_here(const complaint *c, long at, const char *spelling);
/* Its text, "" beyond either end; the caller frees. */
char *token_text(const complaint *c, long at);
/* The text in the message's `which`-th pair of quotes, from 1; NULL when there is none. */
char *quoted(const char *message, unsigned which);

#endif
