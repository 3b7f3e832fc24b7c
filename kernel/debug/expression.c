#include "debug/expression.h"
#include "cells/lexer.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST_MACRO = 12 };

char *variable_for_lldb(const entity *e)
{
    if (e->kind != ENTITY_VARIABLE || !e->link || !e->type) return NULL;
    return format_text("(*(__typeof__(%s) *)&%s)", e->type, e->link);
}

/* What stands behind `#define NAME`, or NULL where that takes arguments. */
static const char *macro_body(const entity *e)
{
    const char *at = e->declaration ? strstr(e->declaration, "define") : NULL;
    if (!at) return NULL;
    at += strlen("define");
    at += strspn(at, " \t");
    at += strlen(e->defines.items[0]) - strlen("m:");
    return *at == ' ' || *at == '\t' ? at : NULL;
}

static void add_rewritten(const symbols *session, const char *expression, const names *locals, int depth, text *into);

static bool add_replacement(const symbols *session, const char *name, const names *locals, int depth, text *into)
{
    if (names_have(locals, name)) return false;
    size_t size = strlen(name);
    const entity *macro = symbols_find_bytes(session, 'm', name, size);
    const char *body = macro && depth < DEEPEST_MACRO ? macro_body(macro) : NULL;
    if (body) {
        char *line = copy_of_bytes(body, strcspn(body, "\n"));
        text_add(into, "(");
        add_rewritten(session, line, locals, depth + 1, into);
        text_add(into, ")");
        free(line);
        return true;
    }
    const entity *e = symbols_find_bytes(session, 'o', name, size);
    char *variable = e ? variable_for_lldb(e) : NULL;
    bool function = e && e->kind == ENTITY_FUNCTION && e->link && e->type;
    if (variable) text_add(into, variable);
    else if (function) text_addf(into, "((__typeof__(%s) *)%s)", e->type, e->link);
    free(variable);
    return variable || function;
}

/* After these a name is a member's or a tag's. */
static bool names_a_part(const char *source, const token *before)
{
    static const char *const words[] = {".", "struct", "union", "enum", "goto"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (token_is(source, before, words[i])) return true;
    }
    return before->end >= 2 && !strncmp(source + before->end - 2, "->", 2);
}

static void add_rewritten(const symbols *session, const char *expression, const names *locals, int depth, text *into)
{
    token_list tokens = tokens_of(expression);
    size_t at = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        const token *t = &tokens.items[i];
        text_add_bytes(into, expression + at, t->begin - at);
        at = t->end;
        char *name = copy_of_bytes(expression + t->begin, t->end - t->begin);
        bool replaced = t->kind == TOKEN_NAME && !(i && names_a_part(expression, t - 1)) &&
                        add_replacement(session, name, locals, depth, into);
        if (!replaced) text_add(into, name);
        free(name);
    }
    text_add(into, expression + at);
    tokens_free(&tokens);
}

char *expression_for_lldb(const symbols *session, const char *expression, const names *locals)
{
    text whole = {0};
    add_rewritten(session, expression, locals, 0, &whole);
    return text_take(&whole);
}
