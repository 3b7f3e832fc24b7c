#include "cells/dependents.h"
#include "cells/needs.h"

#include <stdlib.h>
#include <string.h>

typedef struct search {
    const draft *d;
    names changed, fresh; /* plain names: with another meaning than before; new or as before */
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
    for (size_t i = 0; i < e->defines.count; i++) {
        if (draft_find(d, e->defines.items[i])) return true;
    }
    return false;
}

static void add_names(search *s, const entity *e)
{
    for (size_t i = 0; i < e->defines.count; i++) {
        const char *name = e->defines.items[i] + 2;
        if (names_have(&s->changed, name)) continue;
        names_add(&s->changed, name);
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

/* A function that could not run for want of something that the cell brings is looked at again. */
static bool may_fit_now(const search *s, const entity *e)
{
    for (size_t i = 0; e->unfit && i < e->uses.count; i++) {
        if (names_have(&s->fresh, e->uses.items[i])) return true;
    }
    return false;
}

static void collect(entity *e, void *closure)
{
    search *s = closure;
    dependents *f = &s->found;
    if (!e->link || e->gone || defined_here(s->d, e)) return;
    bool changed = uses_changed(s, e);
    if (e->kind == ENTITY_FUNCTION && e->definition && (changed || may_fit_now(s, e))) {
        f->functions = need_grown(f->functions, f->function_count, &f->function_capacity, sizeof *f->functions);
        f->functions[f->function_count++] = e;
    } else if (e->kind == ENTITY_VARIABLE && changed) {
        f->variables = need_grown(f->variables, f->variable_count, &f->variable_capacity, sizeof *f->variables);
        f->variables[f->variable_count++] = e;
    }
}

static bool differs(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) != 0 : a != b;
}

bool variable_changes(const entity *e, const symbols *session)
{
    const entity *old = symbols_find(session, e->defines.items[0]);
    if (e->kind != ENTITY_VARIABLE || !e->defined || !old || !old->link) return false;
    return e->natural || old->kind != e->kind || old->layout != e->layout || differs(old->constant, e->constant);
}

static void add_changed(search *s, const entity *e, const symbols *session)
{
    const entity *old = symbols_find(session, e->defines.items[0]);
    bool prototype = e->kind == ENTITY_FUNCTION && !e->defined;
    if (only_declares(e) && old) return;
    bool other = e->kind == ENTITY_VARIABLE ? variable_changes(e, session)
                                            : old && !(prototype && old->definition) && differs(old->shown, e->shown);
    if (other) {
        add_names(s, e);
        add_names(s, old);
    } else if (!prototype && (e->kind != ENTITY_VARIABLE || e->defined)) {
        for (size_t i = 0; i < e->defines.count; i++) names_add(&s->fresh, e->defines.items[i] + 2);
    }
}

dependents dependents_of(const draft *d, const symbols *session, const names *more)
{
    search s = {.d = d};
    for (size_t i = 0; i < d->count; i++) {
        if (d->items[i].what->defines.count) add_changed(&s, d->items[i].what, session);
    }
    for (size_t i = 0; i < more->count; i++) {
        names_add(&s.changed, more->items[i]);
        s.grown = true;
    }
    while (s.grown) {
        s.grown = false;
        symbols_each(session, spread, &s);
    }
    if (s.changed.count || s.fresh.count) symbols_each(session, collect, &s);
    names_free(&s.changed);
    names_free(&s.fresh);
    return s.found;
}

void dependents_free(dependents *d)
{
    free(d->functions);
    free(d->variables);
    *d = (dependents){0};
}
