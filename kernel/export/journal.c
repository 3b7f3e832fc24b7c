#include "export/journal.h"

#include <stdlib.h>
#include <string.h>

static void cell_forget(journal_cell *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->items[i].code);
        names_free(&e->items[i].variables);
    }
    free(e->items);
    free(e->source);
    free(e->name);
    *e = (journal_cell){0};
}

void journal_begin(journal *j, const char *source, const char *name)
{
    cell_forget(&j->current);
    j->current = (journal_cell){.source = copy_of(source), .name = copy_of(name)};
    j->open = true;
    j->paused = 0;
}

static void forget_same(journal *j, const char *source)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->count; i++) {
        if (strcmp(j->items[i].source, source)) j->items[kept++] = j->items[i];
        else cell_forget(&j->items[i]);
    }
    j->count = kept;
}

void journal_end(journal *j, bool failed)
{
    if (j->open && !failed && j->current.count) {
        forget_same(j, j->current.source);
        j->items = need_grown(j->items, j->count, &j->capacity, sizeof *j->items);
        j->items[j->count++] = j->current;
        j->current = (journal_cell){0};
    }
    cell_forget(&j->current);
    j->open = false;
}

static void add(journal *j, stretch one)
{
    journal_cell *e = &j->current;
    e->items = need_grown(e->items, e->count, &e->capacity, sizeof *e->items);
    e->items[e->count++] = one;
}

void journal_code(journal *j, const char *code)
{
    if (j->open && !j->paused) add(j, (stretch){.code = copy_of(code)});
}

void journal_comment(journal *j, const char *line, size_t size)
{
    if (j->open && !j->paused) add(j, (stretch){.comment = true, .code = copy_of_bytes(line, size)});
}

static stretch *last_code(journal *j)
{
    stretch *last = j->open && !j->paused && j->current.count ? &j->current.items[j->current.count - 1] : NULL;
    return last && !last->comment ? last : NULL;
}

void journal_variable(journal *j, const char *name, const char *type)
{
    stretch *last = last_code(j);
    if (!last) return;
    char *line = format_text("%s=%s", name, type);
    names_add(&last->variables, line);
    free(line);
}

void journal_value(journal *j, const char *format)
{
    stretch *last = last_code(j);
    if (last) last->format = format;
}

void journal_clear(journal *j)
{
    for (size_t i = 0; i < j->count; i++) cell_forget(&j->items[i]);
    free(j->items);
    cell_forget(&j->current);
    *j = (journal){0};
}
