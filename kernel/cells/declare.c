/* Declarations taken apart: specifiers, declarators, initialisers, and the names that each piece brings. */
#include "cells/split.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool at_is(const cell *c, size_t at, const char *spelling)
{
    return at < c->tokens.count && token_is(c->source, &c->tokens.items[at], spelling);
}

static bool word_in(const cell *c, size_t at, const char *const *words)
{
    for (; *words; words++) {
        if (at_is(c, at, *words)) return true;
    }
    return false;
}

bool storage_word(const char *source, const token *t)
{
    static const char *const words[] = {"static",        "inline", "__inline", "__inline__",   "register", "__thread",
                                        "_Thread_local", "auto",   "extern",   "thread_local", NULL};
    for (const char *const *w = words; *w; w++) {
        if (token_is(source, t, *w)) return true;
    }
    return false;
}

static bool qualifier(const cell *c, size_t at)
{
    static const char *const words[] = {"const",   "volatile",     "restrict",  "__restrict",
                                        "_Atomic", "_Noreturn",    "typedef",   "__extension__",
                                        "__const", "__volatile__", "constexpr", NULL};
    return word_in(c, at, words) || storage_word(c->source, &c->tokens.items[at]);
}

static bool builtin_type(const cell *c, size_t at)
{
    static const char *const words[] = {"char",     "double",   "float",       "int",      "long",
                                        "short",    "signed",   "void",        "_Bool",    "unsigned",
                                        "_Complex", "__int128", "__auto_type", "_Float16", "__bf16",
                                        "_Float32", "_Float64", "__signed__",  NULL};
    return word_in(c, at, words);
}

static size_t skip_brackets(const cell *c, size_t at, size_t limit)
{
    size_t end = after_brackets(c->source, c->tokens.items, at, limit);
    return end > limit ? limit : end;
}

/* `struct tag { … }`: returns the token after it. */
static size_t skip_record(const cell *c, size_t at, size_t limit, declaration *d)
{
    size_t keyword = at++;
    while (at_is(c, at, "__attribute__")) at = skip_brackets(c, at + 1, limit);
    if (at < limit && c->tokens.items[at].kind == TOKEN_NAME) at++;
    else if (at_is(c, at, "{")) d->untagged = keyword;
    if (at < limit && at_is(c, at, "{")) {
        d->has_body = true;
        at = skip_brackets(c, at, limit);
    }
    return at;
}

static bool names_follow(const cell *c, size_t at, size_t limit)
{
    return c->tokens.items[at].kind == TOKEN_NAME && at + 1 < limit && c->tokens.items[at + 1].kind == TOKEN_NAME;
}

/* A macro among the specifiers: `double complex z`. */
static bool macro_specifier(const cell *c, size_t at, size_t limit)
{
    return names_follow(c, at, limit) && !at_is(c, at + 1, "__attribute__") && !at_is(c, at + 1, "__asm__");
}

/* `T x`, `T *x`, `T (*x)`; in `f(x)` it is an untyped function's name. */
static bool type_name(const cell *c, size_t at, size_t limit)
{
    if (names_follow(c, at, limit)) return true;
    if (c->tokens.items[at].kind != TOKEN_NAME || at + 1 >= limit) return false;
    return at_is(c, at + 1, "*") || (at_is(c, at + 1, "(") && at_is(c, at + 2, "*"));
}

static size_t read_specifiers(const cell *c, size_t at, size_t limit, declaration *d)
{
    static const char *const with_group[] = {"__attribute__", "_Alignas", "alignas", "_BitInt", NULL};
    static const char *const type_of[] = {"typeof", "__typeof__", "__typeof", "typeof_unqual", NULL};
    static const char *const records[] = {"struct", "union", "enum", NULL};
    bool typed = false;
    while (at < limit) {
        d->is_typedef |= at_is(c, at, "typedef");
        d->is_extern |= at_is(c, at, "extern");
        if (word_in(c, at, records)) {
            at = skip_record(c, at, limit, d);
            typed = true;
        } else if (word_in(c, at, type_of) || word_in(c, at, with_group) ||
                   (at_is(c, at, "_Atomic") && at_is(c, at + 1, "("))) {
            typed |= !at_is(c, at, "__attribute__") && !at_is(c, at, "_Alignas") && !at_is(c, at, "alignas");
            at = at_is(c, at + 1, "(") ? skip_brackets(c, at + 1, limit) : at + 1;
        } else if (qualifier(c, at) || (typed && macro_specifier(c, at, limit))) {
            at++;
        } else if (builtin_type(c, at) || (!typed && type_name(c, at, limit))) {
            typed = true;
            at++;
        } else {
            break;
        }
    }
    return at;
}

/* The declared name: the first one after stars, qualifiers and opening parentheses. */
static size_t find_name(const cell *c, size_t at, size_t limit)
{
    while (at < limit) {
        if (at_is(c, at, "__attribute__")) at = skip_brackets(c, at + 1, limit);
        else if (at_is(c, at, "*") || at_is(c, at, "(") || qualifier(c, at)) at++;
        else break;
    }
    return at < limit && c->tokens.items[at].kind == TOKEN_NAME ? at : none;
}

static declarator read_declarator(const cell *c, size_t at, size_t limit)
{
    declarator d = {.first = at, .value = none, .value_last = none, .open_bracket = none};
    d.name = find_name(c, at, limit);
    while (at < limit && !at_is(c, at, ",") && !at_is(c, at, ";") && !at_is(c, at, "=") && !at_is(c, at, "{")) {
        bool bracket = at_is(c, at, "(") || at_is(c, at, "[");
        at = bracket ? skip_brackets(c, at, limit) : at + 1;
    }
    d.last = at;
    if (d.name != none) {
        bool grouped = d.name > d.first && at_is(c, d.name - 1, "(");
        d.is_function =
            at_is(c, d.name + 1, "(") || (grouped && at_is(c, d.name + 1, ")") && at_is(c, d.name + 2, "("));
        if (at_is(c, d.name + 1, "[") && at_is(c, d.name + 2, "]")) d.open_bracket = d.name + 1;
    }
    if (!at_is(c, at, "=")) return d;
    d.value = ++at;
    while (at < limit && !at_is(c, at, ",") && !at_is(c, at, ";")) {
        bool bracket = at_is(c, at, "(") || at_is(c, at, "[") || at_is(c, at, "{");
        at = bracket ? skip_brackets(c, at, limit) : at + 1;
    }
    d.value_last = at;
    return d;
}

/* Names alone between the parentheses, as Kernighan and Ritchie first had it: `f(a, b) int a; double b; {`. */
static bool names_alone(const cell *c, size_t at, size_t after)
{
    for (size_t i = at + 1; i + 1 < after; i++) {
        bool separated = (i - at) % 2 == 0;
        if (separated ? !at_is(c, i, ",") : c->tokens.items[i].kind != TOKEN_NAME || at_is(c, i, "void")) return false;
    }
    return after > at + 2;
}

static size_t old_style_of(const cell *c, const piece *p, declarator *one)
{
    if (p->kind != PIECE_FUNCTION || one->name == none || !at_is(c, one->name + 1, "(")) return none;
    size_t after = skip_brackets(c, one->name + 1, p->last);
    if (!names_alone(c, one->name + 1, after)) return none;
    one->last = after < one->last ? after : one->last;
    return one->name + 1;
}

char *unnamed_tag(const cell *c, const declaration *d)
{
    const declarator *one = d->count ? &d->declarators[0] : NULL;
    if (d->untagged == none || !one || one->name == none) return NULL;
    if (d->is_typedef && one->first == one->name && one->last == one->name + 1) return NULL;
    const token *t = &c->tokens.items[one->name];
    return format_text("unnamed_%.*s", (int)(t->end - t->begin), c->source + t->begin);
}

void hide_tags(char *message)
{
    static const char hidden[] = "(unnamed)";
    for (char *found = message; (found = strstr(found, " unnamed_")); found += sizeof hidden) {
        char *end = found + 1;
        while (isalnum((unsigned char)*end) || *end == '_' || (unsigned char)*end >= 0x80) end++;
        memcpy(found + 1, hidden, sizeof hidden - 1);
        memmove(found + sizeof hidden, end, strlen(end) + 1);
    }
}

declaration declaration_of(const cell *c, const piece *p)
{
    declaration d = {.untagged = none, .old_style = none};
    size_t at = read_specifiers(c, p->first, p->last, &d);
    d.specifiers_last = at;
    while (at < p->last && !at_is(c, at, ";") && !at_is(c, at, "{")) {
        declarator one = read_declarator(c, at, p->last);
        d.declarators = need_grown(d.declarators, d.count, &d.capacity, sizeof *d.declarators);
        d.declarators[d.count++] = one;
        size_t end = one.value != none ? one.value_last : one.last;
        if (end <= at && !at_is(c, end, ",")) break;
        at = at_is(c, end, ",") ? end + 1 : end;
        if (p->kind == PIECE_FUNCTION) {
            d.old_style = old_style_of(c, p, &d.declarators[0]);
            break;
        }
    }
    return d;
}

void declaration_free(declaration *d)
{
    free(d->declarators);
    *d = (declaration){0};
}

static void add_name(const cell *c, size_t at, char space, names *into)
{
    const token *t = &c->tokens.items[at];
    char *key = format_text("%c:%.*s", space, (int)(t->end - t->begin), c->source + t->begin);
    if (!names_have(into, key)) names_add(into, key);
    free(key);
}

static void add_enumerators(const cell *c, size_t at, size_t limit, names *into)
{
    bool expected = true;
    for (at++; at + 1 < limit; at++) {
        if (expected && c->tokens.items[at].kind == TOKEN_NAME) add_name(c, at, 'o', into);
        expected = at_is(c, at, ",");
        if (at_is(c, at, "(") || at_is(c, at, "{")) at = skip_brackets(c, at, limit) - 1;
    }
}

/* Tags with a body, at any depth, and the constants of every enum. */
static void add_tags(const cell *c, size_t first, size_t last, bool forward, names *into)
{
    static const char *const records[] = {"struct", "union", "enum", NULL};
    for (size_t at = first; at < last; at++) {
        if (!word_in(c, at, records)) continue;
        bool is_enum = at_is(c, at, "enum");
        size_t tag = at + 1;
        while (at_is(c, tag, "__attribute__")) tag = skip_brackets(c, tag + 1, last);
        bool tagged = tag < last && c->tokens.items[tag].kind == TOKEN_NAME;
        size_t body = tagged ? tag + 1 : tag;
        bool defined = body < last && at_is(c, body, "{");
        if (tagged && (defined || forward)) add_name(c, tag, 't', into);
        if (is_enum && defined) add_enumerators(c, body, skip_brackets(c, body, last), into);
    }
}

void defined_names(const cell *c, const piece *p, names *into)
{
    if (p->kind != PIECE_DECLARATION && p->kind != PIECE_FUNCTION) return;
    declaration d = declaration_of(c, p);
    bool forward = !d.count && d.specifiers_last == p->first + 2; /* `struct P;` */
    add_tags(c, p->first, p->kind == PIECE_FUNCTION ? d.specifiers_last : p->last, forward, into);
    char *tag = unnamed_tag(c, &d), *key = tag ? format_text("t:%s", tag) : NULL;
    if (key) names_add(into, key);
    free(tag);
    free(key);
    for (size_t i = 0; i < d.count; i++) {
        if (d.declarators[i].name != none) add_name(c, d.declarators[i].name, 'o', into);
    }
    declaration_free(&d);
}
