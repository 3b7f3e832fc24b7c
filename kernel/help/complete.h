/* Completion, in parts: matches with what they are, best first. Read first: help.h. */
#ifndef KERNEL_HELP_COMPLETE_H
#define KERNEL_HELP_COMPLETE_H

#include "help/help.h"

/* The order in which they are offered. */
typedef enum rank_of_match {
    FITS,  /* a constant of the enum that is wanted */
    LOCAL, /* of the cell that is being written */
    KNOWN, /* of the session */
    OTHER, /* of headers and of the language */
    FAR,   /* of a header that no cell has included */
} rank_of_match;

typedef struct match {
    char *name, *type, *signature; /* type: "function", as JupyterLab shows it; signature: "" for none */
    rank_of_match rank;
} match;

typedef struct matches {
    match *items;
    size_t count, capacity;
} matches;

/* The code and the word that are being written. All borrowed. */
typedef struct writing {
    session *s;
    const char *code, *start; /* start: the word, up to the cursor */
    size_t word, cursor;      /* bytes of the code: where the word begins, where the cursor is */
} writing;

/* Copies. */
void match_add(matches *into, rank_of_match rank, const char *name, const char *type, const char *signature);
/* Names of one kind that begin with `start`, the caller's list, which is freed. */
void match_add_all(matches *into, rank_of_match rank, names *list, const char *type, const char *start);
void matches_free(matches *all);
/* Does a name begin so? */
bool begins(const char *name, const char *start);

/* complete_c.c: clang's own matches at the word. */
void complete_c(const writing *w, matches *into);
/* `pointer.`: its members, each with the `->` that must stand there instead. False: it is no pointer to a struct. */
bool complete_through_pointer(const writing *w, matches *into);
/* complete_session.c: names of the session, tags only behind their keyword; then those of headers not yet included. */
void complete_session(const writing *w, matches *into);
void complete_library(const writing *w, matches *into);
/* The session's variables alone. */
void complete_variables(const session *s, const char *start, matches *into);
/* "struct", "union", "enum" when the word stands behind it; NULL behind anything else. */
const char *tag_word(const char *code, size_t word);

/* complete_place.c: the type that is wanted where an argument of a function of the session's, or the value of an option
 * of Kolo's, is being written; NULL when that is not so, or clang knows. The caller frees. */
char *wanted_type(const writing *w);
/* `struct node list[] = {{1}, {.` in a form in which clang knows whose members are wanted: `struct node list[];
 * list[0].`; NULL for any other code. The caller frees. */
char *of_element(const char *head);

/* complete_shell.c: the line of a magic or of the shell; where the word begins there. */
size_t complete_line(const writing *w, matches *into);
/* Words of a `#pragma omp`; variables of the environment, Kolo's among them. */
void complete_openmp(const char *start, matches *into);
void complete_variable(const session *s, const char *start, matches *into);
/* The name of a file, from the byte `begin` on. */
void complete_path(const writing *w, size_t begin, matches *into);

#endif
