#include "cells/declared.h"
#include "cells/lexer.h"
#include "cells/text.h"

#include <string.h>

/* Stars and what may qualify them, from token `at` on. */
static size_t after_stars(const char *type, const token_list *list, size_t at)
{
    static const char *const words[] = {"*", "const", "volatile", "restrict", "__restrict", "_Atomic", NULL};
    for (; at < list->count; at++) {
        const char *const *word = words;
        while (*word && !token_is(type, &list->items[at], *word)) word++;
        if (!*word) break;
    }
    return at;
}

static bool is(const char *type, const token_list *list, size_t at, const char *spelling)
{
    return at < list->count && token_is(type, &list->items[at], spelling);
}

/* The token before which the name stands: inside the innermost `(*`, or before the first `[` or `(`. */
static size_t place_of_name(const char *type, const token_list *list)
{
    size_t at = 0;
    while (at < list->count && !is(type, list, at, "(") && !is(type, list, at, "[")) at++;
    while (is(type, list, at, "(") && is(type, list, at + 1, "*")) at = after_stars(type, list, at + 1);
    return at;
}

char *declared(const char *type, const char *name)
{
    static const char *const opaque[] = {"__attribute__", "_Atomic(", "_BitInt(", "typeof", "(^", NULL};
    for (const char *const *word = opaque; *word; word++) {
        if (strstr(type, *word)) return format_text("__typeof__(%s) %s", type, name);
    }
    token_list list = tokens_of(type);
    size_t at = place_of_name(type, &list);
    size_t split = at < list.count ? list.items[at].begin : strlen(type);
    tokens_free(&list);
    while (split && type[split - 1] == ' ') split--;
    bool apart = split && type[split - 1] != '*' && type[split - 1] != '(';
    return format_text("%.*s%s%s%s", (int)split, type, apart ? " " : "", name, type + split);
}
