/* Which options a call was written with. C makes no difference between an option that is left out and one that is set
 * to zero; the text of the call does, and the first member of its options, `_`, is that text. */
#ifndef KOLO_CORE_WRITTEN_H
#define KOLO_CORE_WRITTEN_H

#include <kolo.h>

/* Whether `.name =` or `.name[` stands in the options' text, outside every call and list within it. NULL is no text. */
bool kolo_written(const char *text, const char *name);

/* Makes KOLO_NONE of a zero that is written, for a number whose zero means its default. */
void kolo_keep_zero(const char *text, const char *name, double *value);
void kolo_keep_zero_int(const char *text, const char *name, int *value);

#endif
