/* Characters in UTF-8. */
#ifndef KOLO_CORE_UTF8_H
#define KOLO_CORE_UTF8_H

#include <stddef.h>

/* What stands for bytes that are no character: U+FFFD. */
#define KOLO_UTF8_UNKNOWN "\xef\xbf\xbd"

/* Bytes of the character that begins here, of which `left` are there: 0 where none does. */
size_t kolo_utf8_size(const char *text, size_t left);
/* Characters of a text. */
int kolo_utf8_count(const char *text);

#endif
