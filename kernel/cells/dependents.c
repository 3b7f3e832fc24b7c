#include "cells/dependents.h"

#include <stdlib.h>
#include <string.h>

typedef struct search {
    const draft *d;
    names changed; /* plain names */
    dependents found;
    bool grown;
} search;

static bool uses_changed(const search *s, const entity *e)
{
    for (size_t i = 0; i < e->uses.count; i++) {
        if (names_have(&s->changed, e->uses.items[i])) return true;
    }
    return false;
}

static bool defined_here(const draft *d, const entity *e)
{
    for (size_t i = 0; i < d->count; i++) {
        for (size_t k = 0; k < e->defines.count; k++) {
            if (names_have(&d->items[i].what->defines, e->defines.items[k])) return true;
        }
    }
    return false;
}

static void add_names(search *s, const entity *e)
{
    for (size_t i = 0; i < e->defines.count; i++) {
        const char *name = e->defines.items[i] + 2;
        if (names_have(&s->changed, name)) continue;
        names_add(&s->changed, name, strlen(name));
        s->grown = true;
    }
}

/* What a changed macro or type takes along: macros and types that use it, with all their names. */
static void spread(entity *e, void *closure)
{
    search *s = closure;
    bool carries = e->kind == ENTITY_MACRO || e->kind == ENTITY_TYPE;
    if (carries && uses_changed(s, e)) add_names(s, e);
}

static void collect(entity *e, void *closure)
{
    search *s = closure;
    dependents *f = &s->found;
    if (!e->link || !uses_changed(s, e) || defined_here(s->d, e)) return;
    if (e->kind == ENTITY_FUNCTION && e->definition) {
        f->functions = need_grown(f->functions, f->function_count, &f->function_capacity, sizeof *f->functions);
        f->functions[f->function_count++] = e;
    } else if (e->kind == ENTITY_VARIABLE) {
        f->variables = need_grown(f->variables, f->variable_count, &f->variable_capacity, sizeof *f->variables);
        f->variables[f->variable_count++] = e;
    }
}

dependents dependents_of(const draft *d, const symbols *session)
{
    search s = {.d = d};
    for (size_t i = 0; i < d->count; i++) {
        const entity *e = d->items[i].what;
        if (e->kind == ENTITY_VARIABLE || !e->defines.count || (e->kind == ENTITY_FUNCTION && !e->defined)) continue;
        const entity *old = symbols_find(session, e->defines.items[0]);
        if (old && old->shown && strcmp(old->shown, e->shown)) {
            add_names(&s, e);
            add_names(&s, old);
        }
    }
    while (s.grown) {
        s.grown = false;
        symbols_each(session, spread, &s);
    }
    if (s.changed.count) symbols_each(session, collect, &s);
    names_free(&s.changed);
    return s.found;
}

void dependents_free(dependents *d)
{
    free(d->functions);
    free(d->variables);
    *d = (dependents){0};
}
