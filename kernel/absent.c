/* Variables that a cell reads and whose values are elsewhere: set on the ranks, or lost with an earlier process. They
 * are zero here, which looks like a value. Each is named once. Read first: build.h. */
#include "build.h"
#include "ranks/ranks.h"
#include "print.h"

#include <stdlib.h>

typedef struct listing {
    build *b;
    text at_ranks, lost;
} listing;

/* Is it given a value before anything else, as far as the text shows? */
static bool set_first(const parsed_cell *parsed, const char *name)
{
    const token_list *list = &parsed->split.tokens;
    for (size_t i = 0; i + 1 < list->count; i++) {
        if (token_is(parsed->source, &list->items[i], name)) return token_is(parsed->source, &list->items[i + 1], "=");
    }
    return false;
}

static void list_variable(entity *e, void *closure)
{
    listing *l = closure;
    bool again = e->defines.count && parsed_cell_find(&l->b->cell, e->defines.items[0]);
    if ((!e->at_ranks && !e->lost) || e->mark != l->b->mark || again) return;
    text *into = e->at_ranks ? &l->at_ranks : &l->lost;
    if (!set_first(&l->b->cell, e->name)) text_addf(into, "%s%s", into->size ? ", " : "", e->name);
    e->at_ranks = e->lost = false;
}

/* A parameter, a member or a local variable of the same name is another one. */
static void list_if_read(entity *e, void *closure)
{
    listing *l = closure;
    if ((e->at_ranks || e->lost) && analyser_refers(&l->b->s->analyser, NULL, e->name)) list_variable(e, l);
}

static void say(session *s, text *variables, const char *what)
{
    if (!variables->size) return;
    text_addf(variables, ": %s\n", what);
    print_error(s, variables->data);
    text_free(variables);
}

void note_absent_values(build *b)
{
    listing l = {.b = b};
    bool there = ranks_chosen(b->s);
    for (size_t i = 0; i < b->cell.count; i++) {
        entity *e = b->cell.items[i].what;
        if (e->kind == ENTITY_VARIABLE && e->defined) e->at_ranks = there;
    }
    if (there) return;
    symbols_each(b->s->symbols, list_if_read, &l);
    say(b->s, &l.at_ranks,
        "set by a %%ranks cell, on the ranks; here it is 0. %%ranks in the first line runs a cell there");
    say(b->s, &l.lost, "lost with the process that held the value, and 0 until its cell runs again");
}
