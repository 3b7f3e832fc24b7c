#define _GNU_SOURCE
#include "help/values_now.h"
#include "help/help.h"
#include "help/help_page.h"

#include <stdlib.h>
#include <string.h>

static void add_variable(entity *e, void *closure)
{
    values_now *all = closure;
    if (e->kind != ENTITY_VARIABLE || !e->link || !e->defined) return;
    size_t room = all->capacity;
    all->variables = need_grown(all->variables, all->count, &all->capacity, sizeof *all->variables);
    if (all->capacity != room) all->values = need(realloc(all->values, all->capacity * sizeof *all->values));
    all->values[all->count] = NULL;
    all->variables[all->count++] = e;
}

/* One unit that uses them all, so that clang is asked once. */
static void parse_all(session *s, const values_now *all)
{
    text use = {0};
    for (size_t i = 0; i < all->count; i++) text_addf(&use, "(void)%s;\n", all->variables[i]->name);
    parsed_cell parsed = parsed_cell_of(use.data, "In[0]", 0, s->prefix, s->symbols);
    unit u = unit_of(&parsed, s->symbols, VALUE_NONE, NULL);
    analyser_parse(&s->analyser, u.source.data, u.source.size);
    text_free(&u.source);
    parsed_cell_free(&parsed);
    text_free(&use);
}

values_now values_of_now(session *s)
{
    values_now all = {0};
    symbols_each(s->symbols, add_variable, &all);
    if (!all.count) return all;
    help_begins(s);
    parse_all(s, &all);
    for (size_t i = 0; i < all.count; i++) {
        text facts = {0};
        const entity *e = all.variables[i];
        CXCursor variable = cursor_named(s, e->name);
        if (!clang_Cursor_isNull(variable)) add_value(s, e, clang_getCursorType(variable), &facts);
        char *end = facts.data ? strchr(facts.data, '\n') : NULL;
        if (end) *end = 0;
        if (facts.data && !strncmp(facts.data, "value: ", 7)) all.values[i] = copy_of(facts.data + 7);
        text_free(&facts);
    }
    help_ends(s);
    return all;
}

const char *value_of_now(const values_now *all, const entity *e)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->variables[i] == e) return all->values[i];
    }
    return NULL;
}

void values_free(values_now *all)
{
    for (size_t i = 0; i < all->count; i++) free(all->values[i]);
    free(all->values);
    free(all->variables);
    *all = (values_now){0};
}
