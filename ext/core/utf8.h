/* Texts, and characters in UTF-8. */
#ifndef KOLO_CORE_UTF8_H
#define KOLO_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The replacement for bytes that are not a character: U+FFFD. */
#define KOLO_UTF8_UNKNOWN "\xef\xbf\xbd"

/* The number of bytes of the first character in text[left]; 0: the text does not begin with a complete character. */
size_t kolo_utf8_size(const char *text, size_t left);
/* The number of characters in a text. */
int kolo_utf8_count(const char *text);

bool kolo_ends_with(const char *text, const char *end);

#endif
