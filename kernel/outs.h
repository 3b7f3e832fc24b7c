/* Out[3], _3 and _: the values that earlier cells have shown, as variables. A value is kept as its bytes; a cell that
 * names it gets a variable of its type. Read first: session.h. */
#ifndef KERNEL_OUTS_H
#define KERNEL_OUTS_H

#include "result.h"
#include "session.h"
#include "values/value.h"

/* Runs C that defines such a variable: run_c() of run.h. */
typedef result code_runner(session *s, const char *code, const char *name);

/* Keeps the value that cell `number` shows: `size` bytes at that address of a worker's memory. */
void outs_keep(session *s, unsigned number, CXType type, const memory *from, uint64_t address, size_t size);
/* Defines the variables for what the code names, and writes Out[3] as _3, in the same number of bytes. NULL: the code
 * names none. The caller frees. */
char *outs_named(session *s, const char *code, code_runner *run);
/* Is it the name of such a variable? */
bool outs_name(const char *name);
void outs_clear(session *s);

#endif
