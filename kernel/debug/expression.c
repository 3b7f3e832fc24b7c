#include "debug/expression.h"
#include "build.h"
#include "cells/lexer.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST_MACRO = 12 };

static const char type_prefix[] = "kolo$";

static void name_type(const char *name, const char *link, text *into)
{
    text_addf(into, "#undef %s\ntypedef __typeof__(%s) %s%s;\n", name, name, type_prefix, link);
}

/* Is the name without a declaration in this unit? */
static bool without_type(const build *b, const char *name)
{
    bool without = names_have(&b->missing, name);
    for (size_t i = 0; i < b->stale_count && !without; i++) without = !strcmp(b->stale[i].function->name, name);
    return without;
}

void name_types(const build *b, unit *u)
{
    text_add(&u->source, "\n#line 1 \"<kolo>\"\n");
    for (size_t i = 0; i < b->link_count; i++) {
        if (!without_type(b, b->links[i].name)) name_type(b->links[i].name, b->links[i].link, &u->source);
    }
    for (size_t i = 0; i < b->cell.recheck_count; i++) {
        const entity *e = b->cell.recheck[i];
        if (e->written && e->link) name_type(e->name, e->link, &u->source);
    }
}

char *plain_words(const symbols *known, const char *said)
{
    text plain = {0};
    for (const char *p = said, *at; *p; p = at) {
        at = strstr(p, type_prefix);
        text_add_bytes(&plain, p, at ? (size_t)(at - p) : strlen(p));
        if (!at) break;
        at += strlen(type_prefix);
        size_t size = strcspn(at, "$");
        const entity *e = symbols_find_bytes(known, 'o', at, size);
        if (e && e->type) text_add(&plain, e->type);
        else text_add_bytes(&plain, at, size);
        at += size + (at[size] == '$');
        at += strspn(at, "0123456789");
    }
    return text_take(&plain);
}

char *variable_for_lldb(const entity *e)
{
    if (e->kind != ENTITY_VARIABLE || !e->link || !e->type) return NULL;
    return format_text("(*(%s%s *)&%s)", type_prefix, e->link, e->link);
}

/* The text behind `#define NAME`; NULL where the macro takes arguments. */
static const char *macro_body(const entity *e)
{
    const char *at = e->declaration ? strstr(e->declaration, "define") : NULL;
    if (!at) return NULL;
    at += strlen("define");
    at += strspn(at, " \t");
    at += strlen(e->defines.items[0]) - strlen("m:");
    return *at == ' ' || *at == '\t' ? at : NULL;
}

static void add_rewritten(const symbols *known, const char *expression, const names *locals, int depth, text *into);

static bool add_replacement(const symbols *known, const char *name, const names *locals, int depth, text *into)
{
    if (names_have(locals, name)) return false;
    size_t size = strlen(name);
    const entity *macro = symbols_find_bytes(known, 'm', name, size);
    const char *body = macro && depth < DEEPEST_MACRO ? macro_body(macro) : NULL;
    if (body) {
        char *line = copy_of_bytes(body, strcspn(body, "\n"));
        text_add(into, "(");
        add_rewritten(known, line, locals, depth + 1, into);
        text_add(into, ")");
        free(line);
        return true;
    }
    const entity *e = symbols_find_bytes(known, 'o', name, size);
    char *variable = e ? variable_for_lldb(e) : NULL;
    bool function = e && e->kind == ENTITY_FUNCTION && e->link && e->type;
    if (variable) text_add(into, variable);
    else if (function) text_addf(into, "((%s%s *)%s)", type_prefix, e->link, e->link);
    free(variable);
    return variable || function;
}

/* After these a name is a member's or a tag's. */
static bool names_a_part(const char *text_of, const token *before)
{
    static const char *const words[] = {".", "struct", "union", "enum", "goto"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (token_is(text_of, before, words[i])) return true;
    }
    return before->end >= 2 && !strncmp(text_of + before->end - 2, "->", 2);
}

static void add_rewritten(const symbols *known, const char *expression, const names *locals, int depth, text *into)
{
    token_list tokens = tokens_of(expression);
    size_t at = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        const token *t = &tokens.items[i];
        text_add_bytes(into, expression + at, t->begin - at);
        at = t->end;
        char *name = copy_of_bytes(expression + t->begin, t->end - t->begin);
        bool replaced = t->kind == TOKEN_NAME && !(i && names_a_part(expression, t - 1)) &&
                        add_replacement(known, name, locals, depth, into);
        if (!replaced) text_add(into, name);
        free(name);
    }
    text_add(into, expression + at);
    tokens_free(&tokens);
}

char *expression_for_lldb(const symbols *known, const char *expression, const names *locals)
{
    text whole = {0};
    add_rewritten(known, expression, locals, 0, &whole);
    return text_take(&whole);
}
