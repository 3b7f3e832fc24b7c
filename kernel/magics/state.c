/* Magics about the session itself: %lsmagic, %who, %restart, %reset. See magics.h. */
#define _GNU_SOURCE
#include "help/values_now.h"
#include "magics/magics.h"
#include "outs.h"
#include "ranks/ranks.h"
#include "loads.h"
#include "print.h"
#include "session_worker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int width_of(const char *shown)
{
    int width = 0;
    for (const char *p = shown; *p; p++) width += ((unsigned char)*p & 0xc0) != 0x80;
    return width;
}

/* A row of the list: what to write, padded by characters and not by bytes, and the first sentence about it. */
static void add_row(text *list, int width, const char *usage, const char *help)
{
    const char *stop = strstr(help, ". ");
    text_addf(list, "%s%*s  %.*s\n", usage, width - width_of(usage), "",
              stop ? (int)(stop - help) + 1 : (int)strlen(help), help);
}

result magic_lsmagic(session *s, const char *words, const char *name)
{
    (void)name;
    if (*words) return usage_result(s, "lsmagic", false);
    text list = {0};
    int width = 0;
    for (const magic *m = s->magics; m->name; m++) {
        int one = width_of(m->usage);
        if (one > width) width = one;
    }
    for (const magic *m = s->magics; m->name; m++) add_row(&list, width, m->usage, m->help);
    add_row(&list, width, "!COMMAND", "Runs a command of the shell.");
    add_row(&list, width, "NAME?", "Shows what is known of a name.");
    print_out(s, list.data);
    text_free(&list);
    return (result){0};
}

/* ---- %who ---- */

static const char *const kinds[] = {"macro", "type", "function", "variable"};

typedef struct listing {
    text rows;
    const names *wanted; /* kinds; none: all */
    entity_kind kind;
    int width;
    bool measure; /* only the longest name is wanted */
    bool sizes;   /* and more of the values: %whos */
    const values_now *values;
} listing;

static bool is_kind(const char *word, entity_kind kind)
{
    size_t size = strlen(kinds[kind]);
    return !strncmp(word, kinds[kind], size) && (!word[size] || !strcmp(word + size, "s"));
}

/* Text on one line, its blanks single, as much of it as a row takes. */
static char *one_line(const char *code)
{
    enum { ROW = 90 };
    text out = {0};
    for (const char *p = code; *p && out.size < ROW; p++) {
        bool blank = *p == ' ' || *p == '\t' || *p == '\n' || *p == '\r';
        if (blank && (!out.size || out.data[out.size - 1] == ' ')) continue;
        text_add_bytes(&out, blank ? " " : p, 1);
    }
    while (out.size && (out.data[out.size - 1] == ' ' || (unsigned char)out.data[out.size - 1] >= 0x80))
        out.data[--out.size] = 0;
    if (out.size >= ROW - 4 && strlen(code) > ROW) text_add(&out, " …");
    return text_take(&out);
}

/* As much of a value as a row takes, in whole characters. */
static char *first_of(const char *value, size_t most)
{
    size_t size = strlen(value), end = size < most ? size : most;
    while (end < size && end && ((unsigned char)value[end] & 0xc0) == 0x80) end--;
    return format_text("%.*s%s", (int)end, value, end < size ? "…" : "");
}

static void list_entity(entity *e, void *closure)
{
    listing *l = closure;
    if (e->kind != l->kind || !e->defines.count) return;
    const char *name = e->name ? e->name : e->defines.items[0] + 2;
    if (e->kind == ENTITY_VARIABLE && outs_name(name)) return;
    if (e->kind == ENTITY_TYPE && !strncmp(name, "unnamed_", 8)) return; /* its variable stands for it */
    int width = width_of(name);
    if (l->measure) {
        if (width > l->width && width <= 32) l->width = width;
        return;
    }
    char *shown = one_line(e->kind == ENTITY_VARIABLE && e->type ? e->type : e->shown ? e->shown : "");
    hide_tags(shown);
    const char *value = e->kind == ENTITY_VARIABLE ? value_of_now(l->values, e) : NULL;
    char *cut = value ? first_of(value, l->sizes ? 200 : 48) : NULL;
    text_addf(&l->rows, "%-8s  %s%*s  %s", kinds[e->kind], name, width < l->width ? l->width - width : 0, "", shown);
    if (l->sizes && e->kind == ENTITY_VARIABLE && e->size)
        text_addf(&l->rows, "  (%zu byte%s)", e->size, e->size == 1 ? "" : "s");
    text_addf(&l->rows, "%s%s\n", cut ? " = " : "", cut ? cut : "");
    free(cut);
    free(shown);
}

static result list_all(session *s, const char *words, bool sizes)
{
    static const entity_kind order[] = {ENTITY_VARIABLE, ENTITY_FUNCTION, ENTITY_TYPE, ENTITY_MACRO};
    names wanted = words_of(words);
    values_now values = values_of_now(s);
    listing l = {.wanted = &wanted, .sizes = sizes, .values = &values};
    bool known = true;
    for (size_t i = 0; i < wanted.count; i++) {
        bool found = false;
        for (size_t k = 0; k < 4; k++) found |= is_kind(wanted.items[i], order[k]);
        known &= found;
    }
    for (size_t k = 0; known && k < 8; k++) { /* the widest name first */
        bool chosen = wanted.count == 0;
        l.kind = order[k % 4];
        l.measure = k < 4;
        for (size_t i = 0; i < wanted.count; i++) chosen |= is_kind(wanted.items[i], l.kind);
        if (chosen) symbols_each(s->symbols, list_entity, &l);
    }
    if (known)
        print_out(s, l.rows.size    ? l.rows.data
                     : wanted.count ? "nothing of that kind is defined\n"
                                    : "nothing is defined yet\n");
    text_free(&l.rows);
    names_free(&wanted);
    values_free(&values);
    if (known) return (result){0};
    return error_result("UsageError", "wanted %%who%s [KIND…], with variable, function, type or macro for KIND",
                        sizes ? "s" : "");
}

result magic_who(session *s, const char *words, const char *name)
{
    (void)name;
    return list_all(s, words, false);
}

result magic_whos(session *s, const char *words, const char *name)
{
    (void)name;
    return list_all(s, words, true);
}

result magic_restart(session *s, const char *words, const char *name)
{
    (void)name;
    if (*words) return usage_result(s, "restart", false);
    ranks_end(s);
    if (!replace_worker(s, true)) return error_result("WorkerError", "the process that runs cells cannot be started");
    print_out(s, "restarted: functions, types and includes are kept, variables are zero until their cells run again\n");
    return (result){0};
}

result magic_reset(session *s, const char *words, const char *name)
{
    (void)name;
    if (*words && strcmp(words, "-f")) return usage_result(s, "reset", false);
    ranks_end(s);
    journal_clear(&s->journal);
    outs_clear(s);
    symbols_close(s->symbols);
    s->symbols = symbols_open();
    free(s->prefix);
    s->prefix = copy_of("");
    loads_clear(s);
    for (size_t i = 0; i < s->source_count; i++) s->sources[i].reset = true;
    compiler_reset(&s->compiler);
    if (!replace_worker(s, true)) return error_result("WorkerError", "the process that runs cells cannot be started");
    return (result){0};
}
