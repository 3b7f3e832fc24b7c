/* Any bytes as a session's cells: tokens, pieces, parsed cells, units. A byte 1 ends a cell. What must hold is in each
 * check below; a crash, a sanitizer's report or five seconds without an end are found by libFuzzer itself.
 * Read first: cells/split.h, cells/unit.h. */
#include "cells/dependents.h"
#include "cells/unit.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void check_tokens(const char *source, const token_list *tokens)
{
    size_t at = 0;
    unsigned line = 1;
    for (size_t i = 0; i < tokens->count; i++) {
        const token *t = &tokens->items[i];
        expect(t->begin >= at && t->end > t->begin && t->end <= strlen(source), "tokens follow each other");
        for (; at < t->begin; at++) line += source[at] == '\n';
        expect(t->line == line, "a token stands on its line");
        at = t->begin;
    }
    expect(tokens->items[tokens->count].kind == TOKEN_END, "the last token is the end");
}

static void check_pieces(const cell *c)
{
    size_t at = 0;
    for (size_t i = 0; i < c->count; i++) {
        expect(c->pieces[i].first == at && c->pieces[i].last > at, "pieces cover the tokens, in order");
        at = c->pieces[i].last;
    }
    expect(at == c->tokens.count, "pieces cover all tokens");
}

static void add_names(text *into, const names *list)
{
    for (size_t i = 0; i < list->count; i++) text_addf(into, "%s,", list->items[i]);
}

/* All that a parsed cell says, and both of its units. */
static text told(const char *source, unsigned serial, const symbols *session)
{
    text all = {0};
    parsed_cell parsed = parsed_cell_of(source, "In[3]", serial, "#include <stdio.h>\n", session);
    check_tokens(parsed.source, &parsed.split.tokens);
    check_pieces(&parsed.split);
    dependents found = dependents_of(&parsed, session, &(names){0});
    parsed.again = found.functions;
    parsed.again_count = found.function_count;
    unit analysed = unit_of(&parsed, session, VALUE_PROBE, NULL), compiled = unit_of(&parsed, session, VALUE_PLAIN, "");
    for (size_t i = 0; i < parsed.count; i++) {
        const entity *e = parsed.items[i].what;
        text_addf(&all, "%d %zu %s %s\n", e->kind, parsed.items[i].piece, e->name ? e->name : "",
                  e->shown ? e->shown : "");
        add_names(&all, &e->defines);
        add_names(&all, &e->uses);
        expect(e->kind != ENTITY_VARIABLE || parsed.items[i].offset < analysed.source.size, "a name is in its unit");
    }
    text_add_bytes(&all, analysed.source.data, analysed.source.size);
    text_add_bytes(&all, compiled.source.data, compiled.source.size);
    text_free(&analysed.source);
    text_free(&compiled.source);
    parsed.again = NULL;
    dependents_free(&found);
    parsed_cell_free(&parsed);
    return all;
}

/* As run.c commits what a cell has defined. */
static void commit(const char *source, unsigned serial, symbols *session)
{
    parsed_cell parsed = parsed_cell_of(source, "In[3]", serial, "", session);
    unit u = unit_of(&parsed, session, VALUE_PLAIN, "");
    for (size_t i = 0; i < parsed.count; i++) {
        entity *e = parsed.items[i].what;
        if (!e->defines.count) continue;
        if (e->name && e->kind != ENTITY_MACRO) e->link = format_text("%s$1", e->name);
        parsed.items[i].what = NULL;
        symbols_put(session, e);
    }
    text_free(&u.source);
    parsed_cell_free(&parsed);
}

static void one_cell(const char *source, unsigned serial, symbols *session)
{
    text first = told(source, serial, session), second = told(source, serial, session);
    expect(first.size == second.size && !memcmp(first.data, second.data, first.size), "a cell is read alike each time");
    text_free(&first);
    text_free(&second);
    commit(source, serial, session);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *cells = copy_of_bytes((const char *)bytes, size);
    symbols *session = symbols_open();
    unsigned serial = 0;
    size_t end = strlen(cells);
    for (size_t at = 0; at <= end && serial < 20;) {
        size_t length = strcspn(cells + at, "\1");
        cells[at + length] = 0;
        one_cell(cells + at, ++serial, session);
        at += length + 1;
    }
    symbols_close(session);
    free(cells);
    return 0;
}
