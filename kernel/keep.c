/* Variables whose typedef gets another meaning: they keep the type that they have, where C's own words can say it.
 * Read first: build.h, cells/dependents.h. */
#include "build.h"
#include "cells/declared.h"
#include "cells/dependents.h"

#include <stdlib.h>

char *variable_declaration(const entity *e)
{
    char *plain = declared(e->type, e->name);
    char *whole = e->constant ? format_text("%s = %s;\n", plain, e->constant)
                              : format_text("extern %s%s;\n", e->threads ? "_Thread_local " : "", plain);
    free(plain);
    return whole;
}

typedef struct keeping {
    build *b;
    const names *changed;
} keeping;

static void keep_type(entity *e, void *closure)
{
    const keeping *k = closure;
    build *b = k->b;
    bool touched = false;
    for (size_t i = 0; i < e->dependencies.count; i++) touched |= names_have(k->changed, e->dependencies.items[i]);
    bool own = e->defines.count && parsed_cell_find(&b->cell, e->defines.items[0]);
    if (e->kind != ENTITY_VARIABLE || !e->link || !e->plain || e->natural || !touched || own) return;
    b->kept = need_grown(b->kept, b->kept_count, &b->kept_capacity, sizeof *b->kept);
    b->kept[b->kept_count++] = (retyped){e, e->type, e->declaration, e->dependencies};
    text_addf(&b->notes, "'%s' keeps its type, which is %s\n", e->name, e->plain);
    e->type = copy_of(e->plain);
    e->declaration = variable_declaration(e);
    e->dependencies = (names){0};
    names_add(&e->dependencies, e->name); /* nothing else: the type in its declaration may be gone */
}

/* `typedef int t; t x = 1;`, and now `int t = 6;`: x is an int still. Where a struct is meant, see
 * drop_changed_variables. */
void keep_types(build *b)
{
    names changed = {0};
    changed_typedefs(&b->cell, b->s->symbols, &changed);
    keeping k = {b, &changed};
    if (changed.count) symbols_each(b->s->symbols, keep_type, &k);
    names_free(&changed);
}

void free_kept(build *b)
{
    for (size_t i = 0; i < b->kept_count; i++) {
        retyped *one = &b->kept[i];
        if (b->committed) {
            free(one->type);
            free(one->declaration);
            names_free(&one->dependencies);
            continue;
        }
        free(one->variable->type);
        free(one->variable->declaration);
        names_free(&one->variable->dependencies);
        one->variable->type = one->type;
        one->variable->declaration = one->declaration;
        one->variable->dependencies = one->dependencies;
    }
    free(b->kept);
}
