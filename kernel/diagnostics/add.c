#include "diagnostics/add.h"

#include <string.h>

diagnostic *diagnostic_add(diagnostics *all, const char *cell_name, const char *message, const char *hint)
{
    all->items = need_grown(all->items, all->count, &all->capacity, sizeof *all->items);
    diagnostic *d = &all->items[all->count++];
    *d = (diagnostic){.severity = *message ? CXDiagnostic_Warning : CXDiagnostic_Ignored,
                      .at = {.name = copy_of(cell_name)},
                      .message = copy_of(message),
                      .hint = copy_of(hint)};
    return d;
}

void diagnostic_set_place(diagnostic *d, const cell *c, const token *t)
{
    d->at.line = t->line;
    d->at.column = (unsigned)(t->begin - line_start(c->source, t->begin)) + 1;
}
