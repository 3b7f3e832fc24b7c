/* What the kernel knows about a name: for `?name`, Shift-Tab and completion. Read first: session.h. */
#ifndef KERNEL_HELP_H
#define KERNEL_HELP_H

#include "session.h"

/* "?name", "name?", "%magic?": the name asked about, NULL when the cell is no question; the caller frees. */
char *question_of(const char *code);
/* The answer, as a page for the front end's pager. */
result answer_question(session *s, const char *name);
/* Declaration and comment of a name, or of what stands at `offset` of `code`; NULL when nothing is known. */
char *describe(session *s, const char *name);

/* complete_words.c. Is the cursor's line C, or one for the shell or a magic? */
bool line_is_c(const char *code, size_t cursor);
/* Where the file name begins that is being written. */
size_t path_begin(const char *code, size_t cursor);
void complete_files(const char *start, names *into);
void complete_keywords(const char *start, names *into);
/* The options of a call of Kolo's that begin with `start`; false when it is no such call. */
bool complete_options(session *s, const char *call, const char *start, names *into);
/* "epochs, batch_size, …": the names of the options of such a call; NULL when it has none. The caller frees. */
char *call_options(session *s, const char *name);

#endif
