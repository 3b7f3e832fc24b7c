/* Finding the options that were written in a call. C does not distinguish an option that is left out from one that is
 * set to zero, but the text of the call does. The first member of an options struct, `_`, is this text. */
#ifndef KOLO_CORE_WRITTEN_H
#define KOLO_CORE_WRITTEN_H

#include <kolo.h>

/* Whether the options' text contains `.name =` or `.name[` outside of nested calls and lists. NULL is an empty text. */
bool kolo_written(const char *text, const char *name);

/* Replaces a zero that was written by KOLO_NONE, for options where zero means the default. */
void kolo_keep_zero(const char *text, const char *name, double *value);
void kolo_keep_zero_int(const char *text, const char *name, int *value);

#endif
