/* The statements of cells, and their initialisers as assignments, in the order in which they ran. See program.h. */
#define _GNU_SOURCE
#include "export/program.h"
#include "cells/declared.h"

#include <stdlib.h>
#include <string.h>

typedef struct writing {
    program *p;
    const parsed_cell *cell;
    const stretch *from;
    text *into; /* main's body, or that of the cell's own function */
} writing;

/* ---- tokens ---- */

static const char *new_name(const program *p, const char *name, size_t size)
{
    for (size_t i = p->renamed.count; i-- > 0;) {
        const char *one = p->renamed.items[i];
        if (!strncmp(one, name, size) && one[size] == '=') return one + size + 1;
    }
    return NULL;
}

static void add_comment(text *into, const char *code, size_t size)
{
    text_add(into, "/* ");
    for (size_t i = 0; i < size; i++) {
        text_add_bytes(into, code + i, 1);
        if (code[i] == '*' && code[i + 1] == '/') text_add(into, " ");
        if (code[i] == '\n') text_add(into, "     ");
    }
    text_add(into, " */");
}

/* Tokens with what stands between them, one level deeper; variables under their names of now. */
static void add_tokens(const writing *w, text *into, size_t first, size_t last)
{
    const char *code = w->cell->source;
    const token *t = w->cell->split.tokens.items;
    for (size_t i = first; i < last; i++) {
        for (size_t at = i > first ? t[i - 1].end : t[i].begin; at < t[i].begin; at++)
            text_add_bytes(into, code[at] == '\n' ? "\n    " : code + at, code[at] == '\n' ? 5 : 1);
        size_t size = t[i].end - t[i].begin;
        bool member = i > first && (token_is(code, &t[i - 1], ".") || token_is(code, &t[i - 1], "->"));
        const char *name = t[i].kind == TOKEN_NAME && !member ? new_name(w->p, code + t[i].begin, size) : NULL;
        if (t[i].kind == TOKEN_SHELL) {
            const char *before = i > first && t[i - 1].kind != TOKEN_SHELL ? code + t[i - 1].begin : ";";
            add_comment(into, code + t[i].begin, size);
            if (!strchr("{};", *before)) text_add(into, ";"); /* it may be all there is behind an if () */
        } else if (name) {
            text_add(into, name);
        } else {
            text_add_bytes(into, code + t[i].begin, size);
        }
    }
}

/* ---- initialisers ---- */

static bool is_array_type(const char *type)
{
    const char *inner = strstr(type, "(*");
    if (inner) return inner[1 + strspn(inner + 1, "*")] == '[';
    return *type && type[strlen(type) - 1] == ']';
}

/* The type with which the cell defined the variable; NULL when it did not. */
static const char *type_of(const stretch *from, const char *name)
{
    size_t size = strlen(name);
    for (size_t i = from->variables.count; i-- > 0;) {
        const char *one = from->variables.items[i];
        if (!strncmp(one, name, size) && one[size] == '=') return one + size + 1;
    }
    return NULL;
}

/* Does the type mean the same whatever the cells define? */
static bool is_builtin(const char *type)
{
    static const char words[] = " int char short long unsigned signed float double _Bool const void _Complex size_t ";
    bool known = true;
    for (const char *p = type; known && *p;) {
        size_t size = word_size(p);
        char *word = format_text(" %.*s ", (int)size, p);
        known = !size || (*p >= '0' && *p <= '9') || strstr(words, word);
        free(word);
        p += size ? size : 1;
    }
    return known;
}

/* From here on the name means a variable of this type: the program's own, or one that a later cell has replaced; or
 * none, where the type itself has been replaced. */
static void rename_for(program *p, const entity *live, const char *name, const char *type)
{
    bool same = live && live->kind == ENTITY_VARIABLE && live->type && !strcmp(live->type, type);
    char *line = NULL;
    if (same) {
        line = format_text("%s=%s", name, name);
    } else if (!is_builtin(type)) {
        line = format_text("%s=", name);
    } else {
        char *other = format_text("%s_%u", name, ++p->renames), *settable = settable_type(type);
        char *declared_as = declared(settable, other);
        text_addf(&p->variables, "%s; /* until a later cell defined %s anew */\n", declared_as, name);
        line = format_text("%s=%s", name, other);
        free(other), free(settable), free(declared_as);
    }
    names_add(&p->renamed, line);
    free(line);
}

static void write_set(writing *w, const parsed_item *item, const declarator *one, const char *type)
{
    program *p = w->p;
    const char *name = new_name(p, item->what->name, strlen(item->what->name));
    char *settable = settable_type(type);
    bool braces = token_is(w->cell->source, &w->cell->split.tokens.items[one->value], "{");
    bool large = item->what->size > 65536, array = is_array_type(type), plain = is_builtin(type) || strchr(type, '*');
    p->uses_memory |= array;
    if ((array && large) || (!braces && (array || !plain))) { /* it may be a macro with braces in it */
        char *declared_as = declared(settable, "value");
        text_addf(w->into, "    { %s%s = ", large ? "static " : "", declared_as);
        add_tokens(w, w->into, one->value, one->value_last);
        text_addf(w->into, array ? "; memcpy(%s, value, sizeof value); }\n" : "; %s = value; }\n", name);
        free(declared_as);
    } else if (array) {
        text_addf(w->into, "    memcpy(%s, (%s)", name, settable);
        add_tokens(w, w->into, one->value, one->value_last);
        text_addf(w->into, ", sizeof %s);\n", name);
    } else {
        text_addf(w->into, braces ? "    %s = (%s)" : "    %s = ", name, settable);
        add_tokens(w, w->into, one->value, one->value_last);
        text_add(w->into, ";\n");
    }
    free(settable);
}

static void write_initialiser(writing *w, const parsed_item *item, const piece *at)
{
    const char *name = item->what->name, *type = type_of(w->from, name);
    entity *live = symbols_find_bytes(w->p->s->symbols, 'o', name, strlen(name));
    if (!type || (live && live->kind == ENTITY_VARIABLE && live->constant)) return;
    declaration taken = declaration_of(&w->cell->split, at);
    bool before = names_have(&w->p->given, name);
    rename_for(w->p, live, name, type);
    const char *now = new_name(w->p, name, strlen(name));
    if (*now && item->has_value) write_set(w, item, &taken.declarators[item->declarator], type);
    else if (before && !strcmp(now, name)) {
        text_addf(w->into, "    memset(&%s, 0, sizeof %s);\n", name, name);
        w->p->uses_memory = true;
    }
    if (!strcmp(now, name) && !before) names_add(&w->p->given, name);
    declaration_free(&taken);
}

/* ---- statements ---- */

static void write_value_of(writing *w, const piece *at)
{
    const char *format = w->from->format;
    text shown = {0};
    add_tokens(w, &shown, at->first, at->last);
    bool truth = format && !strcmp(format, "true or false");
    w->p->uses_print |= format != NULL;
    if (truth) text_addf(w->into, "    printf(\"%%s\\n\", (%s) ? \"true\" : \"false\");\n", shown.data);
    else if (format) text_addf(w->into, "    printf(\"%s\", (%s));\n", format, shown.data);
    else text_addf(w->into, "    (void)(%s);\n", shown.data);
    text_free(&shown);
}

static bool is_word(const parsed_cell *parsed, const piece *at, const char *word)
{
    return word_at(directive_word(parsed->source, &parsed->split.tokens.items[at->first]), word);
}

/* A macro that other cells define otherwise, or take away, is defined where its cell ran. */
static void write_macro(writing *w, const char *code, size_t size, bool undefine)
{
    program *p = w->p;
    const char *name = skip_blanks(skip_blanks(code + 1) + (undefine ? 5 : 6));
    size_t length = word_size(name);
    char *own = copy_of_bytes(name, length);
    const entity *live = symbols_find_bytes(p->s->symbols, 'm', name, length);
    bool same = live && live->shown && strlen(live->shown) == size && !memcmp(live->shown, code, size);
    if (!same || names_have(&p->moving, own)) {
        if (!names_have(&p->moving, own)) names_add_bytes(&p->moving, own, length);
        text_addf(w->into, "#undef %s\n", own);
        if (!undefine) text_addf(w->into, "%.*s\n", (int)size, code);
    }
    free(own);
}

/* `#pragma omp` and its like belong to the statement that follows. */
static void write_directive(writing *w, const piece *at, const piece *next)
{
    const token *t = &w->cell->split.tokens.items[at->first];
    const char *code = w->cell->source + t->begin;
    size_t size = t->end - t->begin;
    bool statement = next && (next->kind == PIECE_STATEMENT || next->kind == PIECE_EXPRESSION);
    bool packing = is_word(w->cell, at, "pragma") && memmem(code, size, "pack", 4); /* goes with the types */
    if (is_word(w->cell, at, "pragma") && statement && !packing) text_addf(w->into, "%.*s\n", (int)size, code);
    if (is_word(w->cell, at, "define")) write_macro(w, code, size, false);
    if (is_word(w->cell, at, "undef")) write_macro(w, code, size, true);
}

/* Something that later cells have left no meaning: it stays as a comment. */
static bool is_gone(writing *w, const piece *at)
{
    bool gone = false;
    for (size_t i = at->first; i < at->last; i++) {
        const token *t = &w->cell->split.tokens.items[i];
        const char *name = t->kind == TOKEN_NAME ? new_name(w->p, w->cell->source + t->begin, t->end - t->begin) : NULL;
        gone |= name && !*name;
    }
    if (!gone || at->kind == PIECE_FUNCTION || at->kind == PIECE_DIRECTIVE) return false;
    size_t begin = w->cell->split.tokens.items[at->first].begin, end = w->cell->split.tokens.items[at->last - 1].end;
    text_add(w->into, "    ");
    add_comment(w->into, w->cell->source + begin, end - begin);
    text_add(w->into, "\n");
    return true;
}

static void write_pieces(writing *w)
{
    const parsed_cell *parsed = w->cell;
    for (size_t i = 0, item = 0; i < parsed->split.count; i++) {
        const piece *at = &parsed->split.pieces[i];
        if (at->kind != PIECE_DECLARATION && is_gone(w, at)) continue;
        if (at->kind == PIECE_STATEMENT) {
            text_add(w->into, "    ");
            add_tokens(w, w->into, at->first, at->last);
            text_add(w->into, "\n");
        }
        if (at->kind == PIECE_EXPRESSION) write_value_of(w, at);
        if (at->kind == PIECE_DIRECTIVE) write_directive(w, at, i + 1 < parsed->split.count ? at + 1 : NULL);
        while (item < parsed->count && parsed->items[item].piece < i) item++;
        for (; item < parsed->count && parsed->items[item].piece == i; item++) {
            const parsed_item *one = &parsed->items[item];
            if (one->what->kind == ENTITY_VARIABLE && one->what->defined && one->declarator != none)
                write_initialiser(w, one, at);
        }
    }
}

/* `return` ends its cell, and labels are its cell's own. */
static bool wants_function(const journal_cell *cell_run)
{
    bool wanted = false;
    for (size_t i = 0; i < cell_run->count && !wanted; i++) {
        if (cell_run->items[i].comment) continue;
        cell c = cell_split(cell_run->items[i].code);
        for (size_t k = 0; k < c.count; k++) {
            for (size_t t = c.pieces[k].first; c.pieces[k].kind == PIECE_STATEMENT && t < c.pieces[k].last; t++)
                wanted |=
                    token_is(c.source, &c.tokens.items[t], "return") || token_is(c.source, &c.tokens.items[t], "goto");
        }
        cell_free(&c);
    }
    return wanted;
}

static void write_stretch(program *p, const stretch *one, const char *name, text *into)
{
    if (one->comment) {
        text_add(into, "    ");
        add_comment(into, one->code, strlen(one->code));
        text_add(into, "\n");
        return;
    }
    parsed_cell parsed = parsed_cell_of(one->code, name, 0, "", p->s->symbols);
    writing w = {p, &parsed, one, into};
    write_pieces(&w);
    parsed_cell_free(&parsed);
}

void write_cells(program *p)
{
    const journal *j = &p->s->journal;
    names_add(&p->renamed, "main=notebook_main");
    for (size_t i = 0; i < j->count; i++) {
        const journal_cell *one = &j->items[i];
        unsigned number = 0;
        text code = {0};
        cell_number(one->name, &number);
        for (size_t k = 0; k < one->count; k++) write_stretch(p, &one->items[k], one->name, &code);
        if (code.size && wants_function(one)) {
            text_addf(&p->cells, "%sstatic void cell_%u(void)\n{\n%s}\n", p->cells.size ? "\n" : "", number, code.data);
            text_addf(&p->body, "    cell_%u(); /* %s */\n", number, one->name);
        } else if (code.size) {
            text_addf(&p->body, "    /* %s */\n%s", one->name, code.data);
        }
        text_free(&code);
    }
}
