#include "cells/spelling.h"
#include "cells/lexer.h"
#include "cells/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool in_text(const token_list *tokens, size_t at)
{
    for (size_t i = 0; i < tokens->count; i++) {
        const token *t = &tokens->items[i];
        bool quoted = t->kind == TOKEN_STRING || t->kind == TOKEN_CHARACTER || t->kind == TOKEN_SHELL;
        if (at >= t->begin && at < t->end) return quoted;
    }
    return true; /* between tokens: a comment */
}

static bool name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

char *plain_line_ends(const char *source)
{
    char *copy = copy_of(source), *to = copy;
    for (const char *from = source; *from; from++) {
        if (from[0] != '\r' || from[1] != '\n') *to++ = *from;
    }
    *to = 0;
    return copy;
}

/* "con\⏎tinued = 4" becomes "continued\⏎ = 4". */
static void join_name(char *copy, size_t at)
{
    size_t end = at + 2;
    while (name_byte(copy[end])) end++;
    memmove(copy + at, copy + at + 2, end - at - 2);
    copy[end - 2] = '\\';
    copy[end - 1] = '\n';
}

char *plain_spelling(const char *source)
{
    static const char *const digraphs[] = {"<:", ":>", "<%", "%>", "%:"};
    static const char *const plain[] = {"[ ", " ]", "{ ", " }", "# "};
    bool any = false;
    for (const char *p = source; (p = strstr(p, "\\\n")) && !any; p += 2)
        any = p > source && name_byte(p[-1]) && name_byte(p[2]);
    for (size_t i = 0; i < 5; i++) any |= strstr(source, digraphs[i]) != NULL;
    if (!any) return NULL;
    char *copy = copy_of(source);
    token_list tokens = tokens_of(source);
    for (size_t at = 0; copy[at]; at++) {
        for (size_t i = 0; i < 5; i++) {
            if (!strncmp(copy + at, digraphs[i], 2) && !in_text(&tokens, at)) memcpy(copy + at, plain[i], 2);
        }
    }
    tokens_free(&tokens);
    for (size_t at = 1; copy[at]; at++) {
        if (!strncmp(copy + at, "\\\n", 2) && name_byte(copy[at - 1]) && name_byte(copy[at + 2])) join_name(copy, at);
    }
    return copy;
}
