/* Help for what cells have defined: where, with which comment, and a variable's value. See help_page.h. */
#define _GNU_SOURCE
#include "cells/split.h"
#include "help/help.h"
#include "help/help_page.h"

#include <stdlib.h>
#include <string.h>

/* The cell that made an entity: the last source that is not younger than it. NULL: none is at hand. */
static const source *source_of(const session *s, const entity *e)
{
    for (size_t i = s->source_count; i-- > 0;) {
        if (s->sources[i].serial && s->sources[i].serial <= e->serial) return &s->sources[i];
    }
    return NULL;
}

/* Where in its cell it stands. */
typedef struct spot {
    const source *from;
    unsigned line, column; /* 0: not found in the cell's own text, which a macro or a header has made */
    char *text;            /* the piece as it was written */
} spot;

static const token *token_of_name(const cell *c, const piece *p, const char *name)
{
    for (size_t i = p->first; i < p->last; i++) {
        if (token_is(c->source, &c->tokens.items[i], name)) return &c->tokens.items[i];
    }
    return &c->tokens.items[p->first];
}

static bool defines_it(const cell *c, const piece *p, const entity *e)
{
    names keys = {0};
    bool found = false;
    if (p->kind == PIECE_DIRECTIVE) {
        const token *t = &c->tokens.items[p->first];
        char *line = copy_of_bytes(c->source + t->begin, t->end - t->begin);
        const char *word = strstr(line, "define");
        if (word) word += strlen("define") + strspn(word + strlen("define"), " \t");
        size_t size = e->name ? strlen(e->name) : 0;
        found =
            e->kind == ENTITY_MACRO && word && !strncmp(word, e->name ? e->name : "", size) && !word_byte(word[size]);
        free(line);
    } else if (e->kind != ENTITY_MACRO) {
        defined_names(c, p, &keys);
        for (size_t i = 0; i < keys.count; i++) found |= names_have(&e->defines, keys.items[i]);
    }
    names_free(&keys);
    return found;
}

static spot spot_of(const session *s, const entity *e)
{
    spot at = {.from = source_of(s, e)};
    if (!at.from) return at;
    const char *word = e->name ? e->name : e->defines.count ? e->defines.items[0] + 2 : "";
    cell c = cell_split(at.from->text);
    for (size_t i = c.count; i-- > 0 && !at.line;) {
        const piece *p = &c.pieces[i];
        if (!defines_it(&c, p, e)) continue;
        const token *t = c.tokens.items, *name = token_of_name(&c, p, word);
        bool block = e->kind != ENTITY_VARIABLE;
        at.line = block ? t[p->first].line : name->line;
        size_t begin = block ? t[p->last - 1].begin : name->begin;
        at.column = (unsigned)(begin - line_start(c.source, begin)) + 1;
        at.text = copy_of_bytes(c.source + t[p->first].begin, t[p->last - 1].end - t[p->first].begin);
    }
    cell_free(&c);
    return at;
}

static char *comment_at(const spot *at, const entity *e)
{
    if (!at->line) return NULL;
    bool beside = e->kind == ENTITY_VARIABLE || e->kind == ENTITY_MACRO;
    char *raw = beside ? comment_beside(at->from->text, at->line, at->column, false) : copy_of("");
    if (!*raw) {
        free(raw);
        raw = comment_above(at->from->text, at->line);
    }
    char *plain = plain_comment(raw);
    free(raw);
    return plain;
}

static void add_place(const spot *at, text *facts)
{
    if (at->from && at->line > 1) text_addf(facts, "defined in %s, line %u\n", at->from->name, at->line);
    else if (at->from) text_addf(facts, "defined in %s\n", at->from->name);
}

CXType type_now(session *s, const entity *e)
{
    char *use = format_text("(void)%s;", e->name);
    parsed_cell parsed = parsed_behind(s, use, "kolo.h");
    unit u = unit_of(&parsed, s->symbols, VALUE_NONE, NULL);
    analyser_parse(&s->analyser, u.source.data, u.source.size);
    CXCursor variable = cursor_named(s, e->name);
    text_free(&u.source);
    parsed_cell_free(&parsed);
    free(use);
    return clang_getCursorType(variable);
}

static void add_variable(const inquiry *ask, const entity *e, text *facts)
{
    add_value(ask->s, e, type_now(ask->s, e), facts);
    if (e->size) text_addf(facts, "size: %zu byte%s\n", e->size, e->size == 1 ? "" : "s");
}

static char *tidy(char *shown)
{
    size_t size = strlen(shown);
    while (size && (shown[size - 1] == ';' || shown[size - 1] == ' ' || shown[size - 1] == '\n')) shown[--size] = 0;
    return shown;
}

char *describe_entity(const inquiry *ask, const entity *e)
{
    spot at = spot_of(ask->s, e);
    page p = {.comment = comment_at(&at, e)};
    if (e->kind == ENTITY_VARIABLE && e->type) {
        char *type = copy_of(e->type);
        hide_tags(type);
        p.signature = declared_as(type, e->name);
        free(type);
        add_variable(ask, e, &p.facts);
    } else {
        bool whole = e->kind == ENTITY_TYPE && at.text;
        p.signature = tidy(copy_of(whole ? at.text : e->shown ? e->shown : e->name ? e->name : ""));
    }
    if (e->kind == ENTITY_FUNCTION && !e->defined) text_add(&p.facts, "declared, not defined yet\n");
    if (e->unfit) text_addf(&p.facts, "cannot be called at present: %s\n", e->unfit);
    if (e->kind == ENTITY_MACRO) {
        char *facts = e->name ? macro_facts(ask->s, e->name) : NULL;
        text_add(&p.facts, facts ? facts : "");
        free(facts);
    }
    add_place(&at, &p.facts);
    if (ask->detail && e->kind == ENTITY_FUNCTION && e->defined && at.text) text_add(&p.rest, at.text);
    free(at.text);
    return page_text(&p);
}
