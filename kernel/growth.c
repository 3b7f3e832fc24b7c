/* An estimate from above of how much a text may grow by macros, files and ranges. An estimate that is too high costs
 * only a trial. Read first: trial.h. */
#define _GNU_SOURCE
#include "trial.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 64 * 1024, /* bytes of a unit: beyond it is always tried */ MOST_MACROS = 2000 };
static const double MOST_TOKENS = 60000; /* after all macros: libclang reads them in a fraction of a second */

typedef struct macro {
    const char *name, *body, *end;
    size_t size;      /* of the name */
    unsigned repeats; /* how often the body has the argument that it has most often; 1 for one without */
    double weight;    /* tokens that it becomes; 0: not known yet */
    bool open;        /* being weighed: within itself a macro is not expanded */
} macro;

typedef struct table {
    macro *items;
    size_t count, capacity;
} table;

static bool word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The end of a directive, with the lines that a backslash continues. */
static const char *directive_end(const char *at, const char *end)
{
    while (at < end && *at != '\n') at += *at == '\\' && at + 1 < end && at[1] == '\n' ? 2 : 1;
    return at < end ? at : end;
}

static size_t word_size(const char *at, const char *end)
{
    size_t size = 0;
    while (at + size < end && word(at[size])) size++;
    return size;
}

static unsigned occurrences(const char *name, size_t size, const char *at, const char *end)
{
    unsigned count = 0;
    while (at < end) {
        size_t here = word_size(at, end);
        count += here == size && !memcmp(at, name, size);
        at += here ? here : 1;
    }
    return count;
}

/* `at`: behind "#define". */
static macro macro_of(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    macro m = {.name = at, .size = word_size(at, end), .end = end, .repeats = 1};
    at += m.size;
    const char *close = at < end && *at == '(' ? memchr(at, ')', (size_t)(end - at)) : NULL;
    m.body = close ? close + 1 : at;
    for (; close && at < close; at++) {
        size_t size = word_size(at, close);
        unsigned often = size                     ? occurrences(at, size, m.body, end)
                         : !strncmp(at, "...", 3) ? occurrences("__VA_ARGS__", 11, m.body, end)
                                                  : 0;
        if (often > m.repeats) m.repeats = often;
        if (size) at += size - 1;
    }
    return m;
}

static macro *find(const table *t, const char *name, size_t size)
{
    for (size_t i = t->count; i-- > 0;) {
        if (t->items[i].size == size && !memcmp(t->items[i].name, name, size)) return &t->items[i];
    }
    return NULL;
}

static double weight_of(table *t, const char *at, const char *end);

static double weight_of_macro(table *t, macro *m)
{
    if (m->open) return 1;
    m->open = true;
    if (m->weight == 0) m->weight = 1 + weight_of(t, m->body, m->end);
    m->open = false;
    return m->weight;
}

/* Tokens, times all that calls may repeat of their arguments: they may stand within each other. */
static double weight_of(table *t, const char *at, const char *end)
{
    double tokens = 0, factor = 1;
    while (at < end) {
        size_t size = word_size(at, end);
        macro *m = size ? find(t, at, size) : NULL;
        tokens += m ? weight_of_macro(t, m) : !isspace((unsigned char)*at);
        if (m) factor *= m->repeats;
        if (tokens * factor > MOST_TOKENS) return tokens * factor;
        at += size ? size : 1;
    }
    return tokens * factor;
}

/* "#include <name>" from a folder of headers is of ordinary size; other files may be of any size. */
static bool own_file(const char *at, const char *end)
{
    size_t size = word_size(at, end);
    bool embeds = size == 5 && !memcmp(at, "embed", 5),
         includes = size >= 6 && !memcmp(at, "include", size < 7 ? size : 7);
    for (at += size; at < end && isspace((unsigned char)*at); at++) continue;
    return embeds || (includes && (end - at < 2 || *at != '<' || at[1] == '/' || at[1] == '.'));
}

/* [0 ... 99999999] */
static bool has_range(const char *unit)
{
    for (const char *at = unit; (at = strstr(at, "...")); at += 3) {
        const char *before = at;
        while (before > unit && isspace((unsigned char)before[-1])) before--;
        if (before > unit && (word(before[-1]) || before[-1] == ')')) return true;
    }
    return false;
}

static void add(table *t, macro m)
{
    t->items = need_grown(t->items, t->count, &t->capacity, sizeof *t->items);
    t->items[t->count++] = m;
}

/* Notes the macros, and puts what is no directive into `code`. True when a file of the learner's is read. */
static bool take_directives(const char *unit, const char *end, table *t, text *code)
{
    bool files = false;
    for (const char *at = unit; at < end && !files && t->count < MOST_MACROS;) {
        const char *line = at;
        while (line < end && (*line == ' ' || *line == '\t')) line++;
        const char *last = directive_end(line, end);
        if (line < end && *line == '#') {
            for (line++; line < last && isspace((unsigned char)*line);) line++;
            if (last - line > 6 && !memcmp(line, "define", 6)) add(t, macro_of(line + 6, last));
            else files = own_file(line, last);
        } else {
            text_add_bytes(code, at, (size_t)(last - at));
            text_add(code, "\n");
        }
        at = last + (last < end);
    }
    return files;
}

bool grows(const char *unit, size_t size)
{
    if (size > LARGE || has_range(unit)) return true;
    table t = {0};
    text code = {0};
    bool files = take_directives(unit, unit + size, &t, &code);
    bool more = files || t.count >= MOST_MACROS ||
                (t.count && code.size && weight_of(&t, code.data, code.data + code.size) > MOST_TOKENS);
    free(t.items);
    text_free(&code);
    return more;
}
