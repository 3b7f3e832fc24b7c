/* How help is laid out: the signature; the comment without its stars; facts, a line each. And what libclang's
 * cursors and a text's lines say about a declaration. Read first: help.h. */
#ifndef KERNEL_HELP_HELP_PAGE_H
#define KERNEL_HELP_HELP_PAGE_H

#include "session.h"

/* A question, and the code in which it stands. All borrowed. */
typedef struct inquiry {
    session *s;
    const char *cell; /* the code in which the question stands, which libclang knows as In[0]; NULL: none */
    int detail;       /* 1: with the body of a function, the whole manual page */
} inquiry;

/* The parts of an answer; empty ones are left out. */
typedef struct page {
    char *signature, *comment; /* owned; NULL: none */
    text facts, rest;          /* rest: a body, or a manual page */
} page;

/* The text of a page, which it frees. */
char *page_text(page *p);

/* A comment's words, without the stars and slashes. */
char *plain_comment(const char *comment);
/* The comment that ends right above the line (from 1), or stands beside what is declared there; as written, "" for
 * none. */
char *comment_above(const char *code, unsigned line);
char *comment_beside(const char *code, unsigned line, unsigned column, bool parameter);

/* "double grid[2][3]" of a name and its type. */
char *declared_as(const char *type, const char *name);

/* The page about what a cursor declares; NULL when it declares nothing. */
char *describe_cursor(const inquiry *ask, CXCursor cursor);
/* The first declaration of that name in the analyser's unit, a definition before others; the null cursor for none. */
CXCursor cursor_named(session *s, const char *name);

/* help_value.c: adds "value: 42" of a variable of the session's, when the worker has it and rests. */
void add_value(session *s, const entity *e, CXType type, text *facts);
/* help_value.c: the MIME bundle of a variable's present value, also while a cell runs; NULL: it cannot be read. */
json_t *value_now(session *s, const entity *e, CXType type);
/* help_session.c: libclang's type of a variable, as a cell would see it now. */
CXType type_now(session *s, const entity *e);

/* help_session.c: of what a cell has defined. */
char *describe_entity(const inquiry *ask, const entity *e);
/* help_macro.c: the expansion of a macro of the session's: "expands to 5 * 5", "value: 25", or "". The caller frees. */
char *macro_facts(session *s, const char *name);
/* Of a macro in force behind the session's includes and `header` (NULL: no other); NULL when none is. */
char *describe_macro(session *s, const char *name, const char *header);
/* help_keyword.c: one sentence about a word of C's own, and how it is written; NULL for any other word. */
char *describe_keyword(const char *word);
/* manual.c: the manual's page on a function, in short or whole; NULL where none is installed. The caller frees. */
char *manual_page(session *s, const char *name, bool whole);
/* Text that the session keeps because it takes time to find: by key, NULL when it has none. */
const char *remembered(const session *s, const char *key);
void remember(session *s, const char *key, const char *words);

#endif
