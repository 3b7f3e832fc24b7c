#include "mistakes/add.h"

#include <string.h>

finding *finding_add(findings *all, const char *cell_name, const char *message, const char *hint)
{
    all->items = need_grown(all->items, all->count, &all->capacity, sizeof *all->items);
    finding *f = &all->items[all->count++];
    *f = (finding){.severity = *message ? CXDiagnostic_Warning : CXDiagnostic_Ignored,
                   .at = {.name = copy_of(cell_name)},
                   .message = copy_of(message),
                   .hint = copy_of(hint)};
    return f;
}

void finding_set_place(finding *f, const cell *c, const token *t)
{
    size_t line = t->begin;
    while (line > 0 && c->source[line - 1] != '\n') line--;
    f->at.line = t->line;
    f->at.column = (unsigned)(t->begin - line) + 1;
}
