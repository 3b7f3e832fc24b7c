#include "cells/needs.h"
#include "cells/unit.h"

#include <stdlib.h>
#include <string.h>

typedef struct needs {
    const char *source;
    const token *tokens;
    size_t first, last;
} needs;

static bool is(const needs *n, size_t at, const char *spelling)
{
    return at >= n->first && at < n->last && token_is(n->source, &n->tokens[at], spelling);
}

static bool is_name(const needs *n, size_t at)
{
    return at >= n->first && at < n->last && n->tokens[at].kind == TOKEN_NAME;
}

static bool is_record_word(const needs *n, size_t at)
{
    return is(n, at, "struct") || is(n, at, "union") || is(n, at, "enum");
}

/* `int count;`, `Node *next, *last;`, `int (*compare)(…)`: between a type and what ends a declarator. */
static bool names_member(const needs *n, size_t at)
{
    if (at == n->first) return false;
    bool behind = is_name(n, at - 1) || is(n, at - 1, "*") || is(n, at - 1, "}") || is(n, at - 1, ",");
    bool ended = is(n, at + 1, ";") || is(n, at + 1, ",") || is(n, at + 1, "[") || is(n, at + 1, ":");
    bool grouped = is(n, at - 1, "*") && at > n->first + 1 && is(n, at - 2, "(") && is(n, at + 1, ")");
    return !is_record_word(n, at - 1) && ((behind && ended) || grouped);
}

/* In that name space: 't' for tags, 'o' for other names. */
static bool defines(const entity *type, char space, const char *name)
{
    for (size_t i = 0; i < type->defines.count; i++) {
        const char *key = type->defines.items[i];
        if (key[0] == space && !strcmp(key + 2, name)) return true;
    }
    return false;
}

static bool is_own_tag(const entity *type, const needs *n, size_t at)
{
    char *name = copy_of_bytes(n->source + n->tokens[at].begin, n->tokens[at].end - n->tokens[at].begin);
    bool own = defines(type, 't', name);
    free(name);
    return own;
}

static void add_uses(entity *type, const needs *n)
{
    names all = {0};
    bool is_enum = false;
    size_t depth = 0; /* of brackets: names in them are no members */
    for (size_t i = n->first; i < n->last; i++) {
        is_enum |= is(n, i, "enum");
        if (is(n, i, "}")) is_enum = false;
        depth += is(n, i, "[");
        depth -= depth && is(n, i, "]");
        if (!depth && !is_enum && is_name(n, i) && names_member(n, i)) continue;
        if (is_name(n, i) && i > n->first && is_record_word(n, i - 1) && is_own_tag(type, n, i)) continue;
        used_names(n->source, n->tokens, i, i + 1, &all);
    }
    names_free(&type->uses);
    for (size_t i = 0; i < all.count; i++) {
        bool known = names_have(&type->uses, all.items[i]) || defines(type, 'o', all.items[i]);
        if (!known) names_add(&type->uses, all.items[i]);
    }
    names_free(&all);
}

/* A pointer to a struct, or a typedef of it, needs no definition of the struct: two structs may point to each other. */
static bool forward_at(const needs *n, size_t tag, bool alias)
{
    size_t after = tag + 1;
    while (is(n, after, "const") || is(n, after, "volatile")) after++;
    return alias || is(n, after, "*");
}

void type_needs(entity *type, const char *source, const token *tokens, size_t first, size_t last)
{
    needs n = {source, tokens, first, last};
    bool alias = is(&n, first, "typedef");
    for (size_t i = first; i < last; i++) alias &= !is(&n, i, "{") && !is(&n, i, "[");
    add_uses(type, &n);
    names firm = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = first; i + 1 < last; i++) {
            if (!is_record_word(&n, i) || is(&n, i, "enum") || !is_name(&n, i + 1)) continue;
            const token *tag = &tokens[i + 1];
            char *name = copy_of_bytes(source + tag->begin, tag->end - tag->begin);
            char *both = format_text("%s %s", is(&n, i, "struct") ? "struct" : "union", name);
            bool forward = forward_at(&n, i + 1, alias), wanted = !defines(type, 't', name) && forward == (pass == 1);
            names *into = pass ? &type->forward_dependencies : &firm;
            if (wanted && !names_have(&firm, both) && !names_have(into, both)) names_add(into, both);
            free(both);
            free(name);
        }
    }
    names_free(&firm);
}

bool declaration_suffices(const entity *type, const char *tag)
{
    for (size_t i = 0; i < type->forward_dependencies.count; i++) {
        if (!strcmp(strchr(type->forward_dependencies.items[i], ' ') + 1, tag)) return true;
    }
    return false;
}

bool only_declares(const entity *type)
{
    return type->kind == ENTITY_TYPE && type->defines.count == 1 && type->defines.items[0][0] == 't' &&
           !strchr(type->shown, '{');
}
