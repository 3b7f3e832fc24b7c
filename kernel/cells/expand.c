#define _GNU_SOURCE
#include "cells/expand.h"
#include "cells/compile.h"
#include "cells/split.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "kolo_expansion_mark";

typedef struct use {
    size_t begin, end; /* bytes of the cell that are replaced */
    unsigned line;     /* of the program, where they stand */
} use;

typedef struct expansion {
    const char *source;
    const symbols *session;
    cell split;
    text program; /* what the preprocessor is given */
    names passing; /* macros that the cell takes back or gives another meaning ... */
    size_t *last;  /* ... the last time at this token */
    size_t last_capacity;
    size_t told;   /* the first token whose directive the program does not have yet */
    use *uses;
    size_t count, capacity;
} expansion;

/* A macro's body, behind its name and parameters. NULL when the line defines no macro with parameters. */
static const char *body_of(const char *line)
{
    const char *p = strstr(line, "define");
    if (!p) return NULL;
    p += 6;
    p += strspn(p, " \t");
    while (isalnum((unsigned char)*p) || *p == '_') p++;
    return *p == '(' && strchr(p, ')') ? strchr(p, ')') + 1 : NULL;
}

static bool declares(const char *line)
{
    const char *body = line ? body_of(line) : NULL;
    if (!body) return false;
    char *whole = copy_of(body);
    for (char *p = whole; (p = strstr(p, "\\\n")); p += 2) p[0] = ' ';
    cell c = cell_split(whole);
    bool found = c.count && (c.pieces[0].kind == PIECE_DECLARATION || c.pieces[0].kind == PIECE_FUNCTION);
    cell_free(&c);
    free(whole);
    return found;
}

/* The definition of the macro of that name that holds before token `at`; NULL when there is none. The caller frees. */
static char *definition_before(const expansion *x, size_t at, const char *name)
{
    for (size_t i = at; i-- > 0;) {
        const token *t = &x->split.tokens.items[i];
        if (t->kind != TOKEN_DIRECTIVE) continue;
        char *line = copy_of_bytes(x->source + t->begin, t->end - t->begin);
        const char *word = skip_blanks(line + 1);
        const char *given = !strncmp(word, "define", 6) ? skip_blanks(word + 6) : NULL;
        if (given && !strncmp(given, name, strlen(name)) && !isalnum((unsigned char)given[strlen(name)]) &&
            given[strlen(name)] != '_')
            return line;
        free(line);
    }
    const entity *e = symbols_find_bytes(x->session, 'm', name, strlen(name));
    return e && e->shown ? copy_of(e->shown) : NULL;
}

static unsigned lines_of(const text *t)
{
    unsigned lines = 1;
    for (size_t i = 0; i < t->size; i++) lines += t->data[i] == '\n';
    return lines;
}

/* `define` or `undef` and the name: NULL when the line is neither. */
static const char *macro_line(const char *line, bool *undefines)
{
    const char *word = skip_blanks(line + 1);
    *undefines = !strncmp(word, "undef", 5);
    if (strncmp(word, "define", 6) && !*undefines) return NULL;
    return skip_blanks(word + (*undefines ? 5 : 6));
}

/* Notes the use, with the directives since the last one before it. */
static void add_use(expansion *x, size_t at, size_t after)
{
    const token *t = x->split.tokens.items;
    if (x->count && t[at].begin < x->uses[x->count - 1].end) return;
    if (!x->count) symbols_add_macros(x->session, &x->program);
    for (; x->told < at; x->told++) {
        if (t[x->told].kind != TOKEN_DIRECTIVE) continue;
        bool undefines;
        char *line = copy_of_bytes(x->source + t[x->told].begin, t[x->told].end - t[x->told].begin);
        if (macro_line(line, &undefines)) text_addf(&x->program, "%s\n", line);
        free(line);
    }
    text_addf(&x->program, "\n%s\n", mark);
    x->uses = need_grown(x->uses, x->count, &x->capacity, sizeof *x->uses);
    x->uses[x->count++] = (use){t[at].begin, t[after - 1].end, lines_of(&x->program)};
    text_addf(&x->program, "%.*s\n%s\n", (int)(t[after - 1].end - t[at].begin), x->source + t[at].begin, mark);
}

/* Macros with an #undef, or a second #define, in the cell. */
static void find_passing(expansion *x)
{
    names given = {0};
    for (size_t i = 0; i < x->split.tokens.count; i++) {
        const token *t = &x->split.tokens.items[i];
        if (t->kind != TOKEN_DIRECTIVE) continue;
        bool undefines;
        char *line = copy_of_bytes(x->source + t->begin, t->end - t->begin);
        const char *at = macro_line(line, &undefines);
        char *name = at ? copy_of_bytes(at, strcspn(at, "( \t\n\\")) : NULL;
        if (name && names_have(&given, name)) {
            x->last = need_grown(x->last, x->passing.count, &x->last_capacity, sizeof *x->last);
            x->last[x->passing.count] = i;
            names_add(&x->passing, name);
        }
        if (name && !undefines) names_add(&given, name);
        free(name);
        free(line);
    }
    names_free(&given);
}

static bool passes_after(const expansion *x, const char *name, size_t at)
{
    for (size_t i = 0; i < x->passing.count; i++) {
        if (x->last[i] > at && !strcmp(x->passing.items[i], name)) return true;
    }
    return false;
}

/* Does the text use a macro that passes, itself or through others? */
static bool rests_on_passing(const expansion *x, size_t at, const char *code, const token *t, size_t count, int depth)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        if (t[i].kind != TOKEN_NAME) continue;
        char *name = copy_of_bytes(code + t[i].begin, t[i].end - t[i].begin);
        found = passes_after(x, name, at);
        char *line = found || depth > 4 ? NULL : definition_before(x, at, name);
        if (line) {
            token_list inner = tokens_of(line + strcspn(line, "e")); /* behind the '#' */
            found = rests_on_passing(x, at, line + strcspn(line, "e"), inner.items, inner.count, depth + 1);
            tokens_free(&inner);
        }
        free(line);
        free(name);
    }
    return found;
}

static void find_resting(expansion *x)
{
    for (size_t i = 0; i < x->split.count; i++) {
        const piece *p = &x->split.pieces[i];
        if (p->kind != PIECE_DECLARATION && p->kind != PIECE_FUNCTION) continue;
        if (rests_on_passing(x, p->first, x->source, x->split.tokens.items + p->first, p->last - p->first, 0))
            add_use(x, p->first, p->last);
    }
}

/* A use stands where a piece can begin: at the start, or behind `;`, `}`, `)` or a directive, outside brackets. */
static void find_uses(expansion *x)
{
    const token *t = x->split.tokens.items;
    size_t limit = x->split.tokens.count;
    for (size_t i = 0; i + 1 < limit; i++) {
        bool open =
            token_is(x->source, &t[i], "{") || token_is(x->source, &t[i], "(") || token_is(x->source, &t[i], "[");
        if (open) {
            size_t end = after_brackets(x->source, t, i, limit);
            if (end > limit) return;
            i = end - 1;
            continue;
        }
        bool start = i == 0 || t[i - 1].kind == TOKEN_DIRECTIVE || token_is(x->source, &t[i - 1], ";") ||
                     token_is(x->source, &t[i - 1], "}") || token_is(x->source, &t[i - 1], ")");
        bool within = i > 0 && (t[i - 1].kind == TOKEN_NAME || token_is(x->source, &t[i - 1], "*"));
        if (!(start || within) || t[i].kind != TOKEN_NAME || !token_is(x->source, &t[i + 1], "(")) continue;
        char *name = copy_of_bytes(x->source + t[i].begin, t[i].end - t[i].begin);
        char *line = definition_before(x, i, name);
        size_t after = after_brackets(x->source, t, i + 1, limit);
        bool pastes = within && line && body_of(line) && strstr(body_of(line), "##"); /* `int CAT(a, b) = 3;` */
        if (after <= limit && (pastes || (start && declares(line)))) add_use(x, i, after);
        free(line);
        free(name);
    }
}

/* The lines between two marks, each at its line of the program, as far as the use has lines. */
static void add_expansion(text *out, const use *u, const char *source, const char *at, const char *end)
{
    unsigned line = u->line - 1, here = 0, most = 0;
    for (size_t k = u->begin; k < u->end; k++) most += source[k] == '\n';
    while (at < end) {
        size_t size = strcspn(at, "\n");
        if (*at == '#' && at[1] == ' ') {
            line = (unsigned)strtoul(at + 2, NULL, 10);
        } else {
            for (; here < most && u->line + here < line; here++) text_add(out, "\n");
            text_add_bytes(out, at, size);
            text_add(out, " ");
            line++;
        }
        at += size + (at[size] == '\n');
    }
    for (; here < most; here++) text_add(out, "\n");
}

static char *replace_uses(const expansion *x, const char *answer)
{
    text out = {0};
    size_t from = 0;
    for (size_t i = 0; i < x->count; i++) {
        const char *begin = strstr(answer, mark), *end = begin ? strstr(begin + sizeof mark - 1, mark) : NULL;
        if (!end) {
            text_free(&out);
            return NULL;
        }
        text_add_bytes(&out, x->source + from, x->uses[i].begin - from);
        add_expansion(&out, &x->uses[i], x->source, begin + sizeof mark - 1, end);
        from = x->uses[i].end;
        answer = end + sizeof mark - 1;
    }
    text_add(&out, x->source + from);
    return text_take(&out);
}

static char *expand(const char *source, const symbols *session, const char *folder, bool passing)
{
    expansion x = {.source = source, .session = session, .split = cell_split(source)};
    if (passing) find_passing(&x);
    if (x.passing.count) find_resting(&x);
    if (!passing) find_uses(&x);
    char *answer = x.count ? preprocessed(&x.program, NULL, folder) : NULL,
         *copy = answer ? replace_uses(&x, answer) : NULL;
    free(answer);
    free(x.uses);
    names_free(&x.passing);
    free(x.last);
    text_free(&x.program);
    cell_free(&x.split);
    return copy;
}

char *with_declarations_expanded(const char *source, const symbols *session, const char *folder)
{
    if (!strchr(source, '(') && !strstr(source, "undef")) return NULL;
    char *once = expand(source, session, folder, false);
    char *twice = expand(once ? once : source, session, folder, true);
    if (twice) free(once);
    return twice ? twice : once;
}
