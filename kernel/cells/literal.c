/* Compound literals, found by their tokens. Read first: unit.h. */
#include "cells/unit.h"

size_t literal_end(const parsed_cell *parsed, size_t at, size_t last)
{
    static const char *const before[] = {"return", "sizeof", "case", "else", "do", NULL};
    const token *t = parsed->split.tokens.items;
    if (!token_is(parsed->source, &t[at], "(") || at + 1 >= last || t[at + 1].kind != TOKEN_NAME) return 0;
    bool called = at > 0 && (t[at - 1].kind == TOKEN_NAME || token_is(parsed->source, &t[at - 1], "]"));
    for (const char *const *word = before; called && *word; word++)
        called = !token_is(parsed->source, &t[at - 1], *word);
    size_t close = called ? last : after_brackets(parsed->source, t, at, last);
    if (close >= last || !token_is(parsed->source, &t[close], "{")) return 0;
    size_t end = after_brackets(parsed->source, t, close, last);
    return end <= last ? end : 0;
}
