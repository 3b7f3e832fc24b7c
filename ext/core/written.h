/* Finding the options that were written in a call. C does not distinguish an option that is left out from one that is
 * set to zero, but the text of the call does. The first member of an options struct, `_`, is this text. */
#ifndef KOLO_CORE_WRITTEN_H
#define KOLO_CORE_WRITTEN_H

#include <kolo.h>

/* Whether the options' text contains `.name =` or `.name[` outside of nested calls and lists. NULL is an empty text. */
bool kolo_written(const char *text, const char *name);
/* Whether the text contains this element of the option `name`, an array: the elements 0, 1 and 5 of `.name = {1, 0, [5]
 * = 2}`, the element 3 of `.name[3] = 0`. An index that is not a plain number is not recognised. */
bool kolo_written_element(const char *text, const char *name, int index);

/* Replaces a zero that was written by KOLO_NONE, for options where zero means the default. */
void kolo_keep_zero(const char *text, const char *name, double *value);
void kolo_keep_zero_int(const char *text, const char *name, int *value);
/* The same for each element of an option that is an array. */
void kolo_keep_zeros(const char *text, const char *name, double *values, int count);

#endif
