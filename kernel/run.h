/* Running one piece of C. Read first: session.h. */
#ifndef KERNEL_RUN_H
#define KERNEL_RUN_H

#include "result.h"
#include "session.h"

/* `name` is how its messages call it. */
result run_c(session *s, const char *code, const char *name);
/* The same for code that was made of what the user wrote: `shown` is what messages quote, at the lines that #line
 * gives. */
result run_shown(session *s, const char *code, const char *shown, const char *name);
/* May libclang read this in the kernel's process (trial.h)? False, and why in `r`. `name`: of the cell. */
bool readable(session *s, const text *what, const char *name, result *r);

#endif
