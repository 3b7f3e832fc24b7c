/* Help on a name: for `?name`, Shift-Tab and completion. Read first: session.h. */
#ifndef KERNEL_HELP_HELP_H
#define KERNEL_HELP_HELP_H

#include "cells/unit.h"
#include "result.h"
#include "session.h"

struct inquiry;

/* help_analyser.c. Help parses headers that no cell may have included, with an analyser of its own: the cells' keeps
 * the preamble that the next cell needs. Between these two calls it stands in the session. */
void help_begins(session *s);
void help_ends(session *s);
/* The code as a cell of the session, behind this header; an array whose initialiser is not complete gets a size. The
 * caller frees it with parsed_cell_free(). */
parsed_cell parsed_behind(session *s, const char *code, const char *header);

/* "?name", "name?", "%magic?", "?ring.next->value": what is asked about, NULL when the cell is no question; the caller
 * frees. `detail` (may be NULL): 1 for "??name", else 0. */
char *question_of(const char *code, int *detail);
/* The answer, as a page for the front end's pager. */
result answer_question(session *s, const char *name, int detail);
/* All that is known of a name, or of an expression; NULL when that is nothing. The caller frees. */
char *describe(const struct inquiry *ask, const char *name);
/* help_place.c: the same of what stands at a byte of the code in `ask`, where libclang finds a declaration for it. */
char *describe_place(const struct inquiry *ask, size_t at);
/* help_call.c: of a call of Kolo's, whose macro and options stand in `file`; NULL when there is none such. */
char *describe_call(const char *name, const char *file);

/* complete_words.c. Jupyter counts characters, C bytes: how many of these so many characters are, and back. */
size_t bytes_of(const char *code, int characters);
int characters_of(const char *code, size_t bytes);
/* May this byte be part of a name? */
bool word_byte(char c);
/* Is the cursor's line C, or one for the shell or a magic? */
bool line_is_c(const char *code, size_t cursor);
/* The C in the code: its magics are blank. The caller frees. */
char *as_c(const char *code);
void complete_files(const char *start, names *into);
void complete_keywords(const char *start, names *into);

/* help_call.c. The options of a call of Kolo's that begin with `start`; false when it is no such call. */
bool complete_options(session *s, const char *call, const char *start, names *into);
/* The type of such an option, where it is one that Kolo has named; else NULL. The caller frees. */
char *option_type(session *s, const char *call, const char *option);

#endif
