/* Texts, and characters in UTF-8, checked by Unicode 15, table 3-7. */
#include "core/utf8.h"

#include <string.h>

/* The size of a character with this first byte; 0: no character begins with it. */
static size_t announced(unsigned char first)
{
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first < 0xe0) return 2;
    if ((first & 0xf0) == 0xe0) return 3;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

size_t kolo_utf8_size(const char *text, size_t left)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t size = announced(c[0]);
    if (size == 0 || size > left) return 0;
    for (size_t i = 1; i < size; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool beyond = (c[0] == 0xed && c[1] >= 0xa0) || (c[0] == 0xf4 && c[1] >= 0x90);
    return overlong || beyond ? 0 : size;
}

int kolo_utf8_count(const char *text)
{
    int count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

bool kolo_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}
