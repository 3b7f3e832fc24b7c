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

#endif
