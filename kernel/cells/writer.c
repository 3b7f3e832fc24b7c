#include "cells/writer.h"

#include <stdlib.h>
#include <string.h>

const char glue_line[] = "\n#line 1 \"<kolo>\"\n";

void glue(writer *w, const char *code)
{
    text_add(&w->out->source, glue_line);
    text_add(&w->out->source, code);
    text_add(&w->out->source, "\n");
}

enum { FARTHEST = 500 }; /* columns: a line of a megabyte would be padded to gigabytes */

void pad_to(writer *w, size_t at)
{
    const char *source = w->cell->source;
    size_t begin = at, limit = at > FARTHEST ? at - FARTHEST : 0;
    while (begin > limit && source[begin - 1] != '\n') begin--;
    for (; begin < at; begin++) text_add_bytes(&w->out->source, source[begin] == '\t' ? "\t" : " ", 1);
}

void move_to(writer *w, size_t at_token)
{
    const token *t = &w->cell->split.tokens.items[at_token];
    char *line = line_directive(w->cell, t->line);
    text_addf(&w->out->source, "\n%s", line);
    free(line);
    pad_to(w, t->begin);
}

/* A shell line inside C: the command as a string, at the place of the line. */
static void add_shell(writer *w, const token *t)
{
    const char *source = w->cell->source;
    text_add(&w->out->source, "kolo_cell_shell(\"");
    unsigned newlines = 0;
    for (size_t i = t->begin + 1; i < t->end; i++) {
        if (source[i] == '\\' && source[i + 1] == '\n') {
            newlines++;
            i++;
        } else if (source[i] == '"' || source[i] == '\\') {
            text_addf(&w->out->source, "\\%c", source[i]);
        } else {
            text_addf(&w->out->source, (unsigned char)source[i] < 32 ? "\\%03o" : "%c", source[i]);
        }
    }
    text_add(&w->out->source, "\");");
    while (newlines--) text_add(&w->out->source, "\n");
}

static void add_blanks(writer *w, size_t begin, size_t end)
{
    for (; begin < end; begin++) text_add_bytes(&w->out->source, w->cell->source[begin] == '\n' ? "\n" : " ", 1);
}

/* A bound of an array that is known only when the cell runs. */
static const bound *bound_at(const parsed_cell *parsed, const token *t)
{
    for (size_t i = 0; i < parsed->bound_count; i++) {
        if (parsed->bounds[i].bracket == t->begin) return &parsed->bounds[i];
    }
    return NULL;
}

static bool constructor_word(const char *source, const token *t)
{
    return token_is(source, t, "constructor") || token_is(source, t, "__constructor__");
}

enum { DEEPEST_LITERAL = 32 };

/* The compound literals that are open while a range is copied. */
typedef struct literals {
    size_t ends[DEEPEST_LITERAL];
    size_t depth, skip_to; /* up to this token they stay as they are */
} literals;

static void open_literal(writer *w, literals *open, const range_options *o, size_t i, size_t first, size_t last)
{
    const token *t = &w->cell->split.tokens.items[i];
    if (token_is(w->cell->source, t, "static") || token_is(w->cell->source, t, "assert")) { /* assert shows its text */
        size_t end = i + 1;
        while (end < last && !token_is(w->cell->source, &w->cell->split.tokens.items[end], ";")) end++;
        open->skip_to = end;
    }
    size_t end = i < open->skip_to || open->depth == DEEPEST_LITERAL ? 0 : literal_end(w->cell, i, last);
    if (!end || (o->but_first && i == first && end == last)) return;
    text_add(&w->out->source, "(*({__auto_type kolo_new=&");
    open->ends[open->depth++] = end;
}

static void close_literals(writer *w, literals *open, size_t next)
{
    for (; open->depth && open->ends[open->depth - 1] == next; open->depth--) {
        text_add(&w->out->source,
                 ";static char kolo_kept[sizeof*kolo_new]__attribute__((aligned(__alignof__(*kolo_new))));"
                 "__builtin_memcpy(kolo_kept,(const void*)kolo_new,sizeof*kolo_new);"
                 "(__typeof__(kolo_new))(void*)kolo_kept;}))");
    }
}

void add_range(writer *w, size_t first, size_t last, range_options o)
{
    if (first >= last) return;
    const token *t = w->cell->split.tokens.items;
    move_to(w, first);
    size_t at = t[first].begin;
    literals open = {.depth = 0};
    for (size_t i = first; i < last; i++) {
        text_add_bytes(&w->out->source, w->cell->source + at, t[i].begin - at);
        if (o.keep_literals && w->assembled) open_literal(w, &open, &o, i, first, last);
        const bound *size = bound_at(w->cell, &t[i]);
        if (o.offset && i == o.name) *o.offset = w->out->source.size;
        if (o.drop_bodies && token_is(w->cell->source, &t[i], "{")) {
            size_t end = after_brackets(w->cell->source, t, i, last) - 1;
            end = end < last ? end : last - 1;
            add_blanks(w, t[i].begin, t[end].end);
            i = end;
        } else if (size) {
            text_addf(&w->out->source, "[%ld]", size->value);
            i = after_brackets(w->cell->source, t, i, last) - 1;
        } else if (o.drop_storage && constructor_word(w->cell->source, &t[i])) {
            text_add(&w->out->source, "used"); /* the cell's code calls it */
            if (i + 1 < last && token_is(w->cell->source, &t[i + 1], "("))
                i = after_brackets(w->cell->source, t, i + 1, last) - 1;
        } else if (o.drop_storage && storage_word(w->cell->source, &t[i])) {
            add_blanks(w, t[i].begin, t[i].end);
        } else if (o.drop_storage && w->cell->c23 && token_is(w->cell->source, &t[i], "constexpr")) {
            text_add(&w->out->source, "const    "); /* clang folds it where a constant must stand */
        } else if (t[i].kind == TOKEN_SHELL) {
            add_shell(w, &t[i]);
        } else {
            text_add_bytes(&w->out->source, w->cell->source + t[i].begin, t[i].end - t[i].begin);
        }
        close_literals(w, &open, i + 1);
        if (o.tag && i == o.tag_after) text_addf(&w->out->source, " %s ", o.tag);
        if (o.number && i == o.number_after) text_addf(&w->out->source, "%zu", o.number);
        at = t[i].end;
    }
}
