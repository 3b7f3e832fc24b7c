#include "cells/dependents.h"
#include "cells/needs.h"

#include <stdlib.h>
#include <string.h>

typedef struct search {
    const parsed_cell *cell;
    names changed, fresh; /* plain names: with another meaning than before; new or as before */
    names macros;         /* of those, macros that stand behind a function of that name, which does not meet them */
    dependents found;
    bool grown;
} search;

static bool uses_changed(const search *s, const entity *e)
{
    for (size_t i = 0; i < e->uses.count; i++) {
        bool itself = e->name && !strcmp(e->name, e->uses.items[i]) && names_have(&s->macros, e->name);
        if (!itself && names_have(&s->changed, e->uses.items[i])) return true;
    }
    return false;
}

static bool defined_here(const parsed_cell *parsed, const entity *e)
{
    for (size_t i = 0; i < e->defines.count; i++) {
        if (parsed_cell_find(parsed, e->defines.items[i])) return true;
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

/* The callers of a function whose parameters or result are of a type that changes are compiled again, too. */
static bool head_changed(const search *s, const entity *e)
{
    bool changed = false;
    for (size_t i = 0; e->kind == ENTITY_FUNCTION && i < e->dependencies.count; i++)
        changed |= strcmp(e->name, e->dependencies.items[i]) && names_have(&s->changed, e->dependencies.items[i]);
    return changed;
}

/* Macros and types that use a changed macro or type count as changed, with all their names. */
static void spread(entity *e, void *closure)
{
    search *s = closure;
    bool carries = e->kind == ENTITY_MACRO || e->kind == ENTITY_TYPE;
    if ((carries && uses_changed(s, e)) || head_changed(s, e)) add_names(s, e);
}

/* A function that could not run is tried again when the cell defines the name that it lacked. */
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
    if (!e->link || e->gone || defined_here(s->cell, e)) return;
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

/* `#define SQ(x) …` where SQ() is a function of an earlier cell: its callers get the macro from now on. */
static bool hides_function(const entity *macro, const symbols *session)
{
    const entity *e = symbols_find_bytes(session, 'o', macro->name, strlen(macro->name));
    const char *name = strstr(macro->shown, macro->name);
    return e && e->kind == ENTITY_FUNCTION && e->link && name && name[strlen(macro->name)] == '(';
}

/* `enum fruit { APPLE, GREEN };` where GREEN is a constant of an earlier enum: that goes, with all its names. */
static void add_displaced(search *s, const entity *e, const symbols *session)
{
    const entity *own = symbols_find(session, e->defines.items[0]);
    for (size_t i = 1; i < e->defines.count; i++) {
        const entity *old = symbols_find(session, e->defines.items[i]);
        if (old && old != own && old->kind == ENTITY_TYPE && e->kind == ENTITY_TYPE) add_names(s, old);
    }
}

static void add_changed(search *s, const entity *e, const symbols *session)
{
    const entity *old = symbols_find(session, e->defines.items[0]);
    bool prototype = e->kind == ENTITY_FUNCTION && !e->defined;
    if (only_declares(e) && old) return;
    bool hides = e->kind == ENTITY_MACRO && !old && hides_function(e, session);
    bool other_kind = old && old->kind == ENTITY_TYPE && e->kind != old->kind;
    bool other = other_kind || hides          ? true
                 : e->kind == ENTITY_VARIABLE ? variable_changes(e, session)
                                              : old && !(prototype && old->definition) && differs(old->shown, e->shown);
    if (hides) names_add(&s->macros, e->name);
    if (other) {
        add_names(s, e);
        if (old) add_names(s, old);
    } else if (!prototype && (e->kind != ENTITY_VARIABLE || e->defined)) {
        for (size_t i = 0; i < e->defines.count; i++) names_add(&s->fresh, e->defines.items[i] + 2);
    }
}

dependents dependents_of(const parsed_cell *parsed, const symbols *session, const names *more)
{
    search s = {.cell = parsed};
    for (size_t i = 0; i < parsed->count; i++) {
        if (!parsed->items[i].what->defines.count) continue;
        add_changed(&s, parsed->items[i].what, session);
        add_displaced(&s, parsed->items[i].what, session);
    }
    for (size_t i = 0; i < parsed->undone.count; i++) {
        names_add(&s.changed, parsed->undone.items[i]);
        s.grown = true;
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
    names_free(&s.macros);
    return s.found;
}

/* Do they say the same, blanks apart? */
static bool same_words(const char *a, const char *b)
{
    token_list left = tokens_of(a), right = tokens_of(b);
    bool same = left.count == right.count;
    for (size_t i = 0; i < left.count && same; i++) {
        const token *l = &left.items[i], *r = &right.items[i];
        same = l->end - l->begin == r->end - r->begin && !memcmp(a + l->begin, b + r->begin, l->end - l->begin);
    }
    tokens_free(&left);
    tokens_free(&right);
    return same;
}

void changed_typedefs(const parsed_cell *parsed, const symbols *session, names *into)
{
    search s = {.cell = parsed};
    for (size_t i = 0; i < parsed->count; i++) {
        const entity *e = parsed->items[i].what;
        for (size_t k = 0; k < e->defines.count; k++) {
            const entity *old = symbols_find(session, e->defines.items[k]);
            bool type = old && old->kind == ENTITY_TYPE && e->defines.items[k][0] == 'o' && !strchr(old->shown, '{');
            if (type && (e->kind != ENTITY_TYPE || !same_words(old->shown, e->shown))) add_names(&s, old);
        }
    }
    while (s.grown) {
        s.grown = false;
        symbols_each(session, spread, &s);
    }
    names_add_all(into, &s.changed);
    names_free(&s.changed);
}

void dependents_free(dependents *d)
{
    free(d->functions);
    free(d->variables);
    *d = (dependents){0};
}
