#define _GNU_SOURCE
#include "cells/headers.h"
#include "cells/split.h"

#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST = 64 * 1024, DEEPEST = 16 }; /* a larger header is a library's: it stays an include */

typedef struct taker {
    symbols *session;
    origins *from;
    text out;
    unsigned line; /* that the next byte of `out` stands on */
    int depth;
} taker;

static void add(taker *t, const char *bytes, size_t size)
{
    text_add_bytes(&t->out, bytes, size);
    for (size_t i = 0; i < size; i++) t->line += bytes[i] == '\n';
}

static void begin_origin(taker *t, const char *file, unsigned line)
{
    origins *o = t->from;
    o->items = need_grown(o->items, o->count, &o->capacity, sizeof *o->items);
    o->items[o->count++] = (origin){t->line, copy_of(file), line};
}

/* The path between the quotes of an #include; NULL for other lines. The caller frees. */
static char *quoted_path(const char *source, const token *t)
{
    const char *word = directive_word(source, t);
    if (strncmp(word, "include", 7)) return NULL;
    word = skip_blanks(word + 7);
    size_t size = *word == '"' ? strcspn(word + 1, "\"\n") : 0;
    return size ? copy_of_bytes(word + 1, size) : NULL;
}

/* As clang looks for it: beside the file that includes it. NULL where there is none of the user's. */
static char *path_beside(const char *includer, const char *path)
{
    char *copy = copy_of(includer);
    bool plain = *path == '/' || !strncmp(includer, "In[", 3) || !strchr(includer, '/');
    char *found = plain ? copy_of(path) : format_text("%s/%s", dirname(copy), path);
    free(copy);
    struct stat facts;
    if (!stat(found, &facts) && S_ISREG(facts.st_mode) && facts.st_size <= LARGEST) return found;
    free(found);
    return NULL;
}

/* The lines of an include guard, or of #pragma once, are blank here: a later cell is to see a changed header. */
static bool guarded(const char *code, const token_list *tokens, size_t *first, size_t *last)
{
    *first = *last = tokens->count;
    if (tokens->count < 3) return false;
    const token *t = tokens->items;
    const char *opens = directive_word(code, &t[0]), *defines = directive_word(code, &t[1]);
    if (strncmp(opens, "ifndef", 6) || strncmp(defines, "define", 6) ||
        strncmp(directive_word(code, &t[tokens->count - 1]), "endif", 5))
        return false;
    const char *name = skip_blanks(opens + 6), *given = skip_blanks(defines + 6);
    size_t size = strcspn(name, " \t\r\n/");
    if (strncmp(name, given, size)) return false;
    *first = 0;
    *last = tokens->count - 1;
    return true;
}

/* Does the session have this piece where the cell runs? */
static bool is_known(const taker *t, const char *key)
{
    return names_have(symbols_headers(t->session, false), key) ||
           (t->from->at_ranks && names_have(symbols_headers(t->session, true), key));
}

/* Blanks guards, and pieces that the session has from this header already. True when it is to be seen once a cell. */
static bool trim(taker *t, const char *path, char *code)
{
    cell c = cell_split(code);
    char *whole = copy_of(code);
    size_t first, last;
    bool guards = guarded(code, &c.tokens, &first, &last), once = guards;
    for (size_t i = 0; i < c.count; i++) {
        const piece *p = &c.pieces[i];
        const token *begin = &c.tokens.items[p->first], *end = &c.tokens.items[p->last - 1];
        bool guard = guards && (p->first <= first + 1 || p->first == last);
        bool pragma = !strncmp(directive_word(whole, begin), "pragma", 6) &&
                      memmem(whole + begin->begin, begin->end - begin->begin, "once", 4);
        once |= pragma;
        if (guard || pragma) blank_out(code, begin->begin, begin->end);
        if (p->kind == PIECE_DIRECTIVE || p->unfinished) continue;
        char *key = format_text("%s\n%.*s", path, (int)(end->end - begin->begin), whole + begin->begin);
        if (is_known(t, key)) blank_out(code, begin->begin, end->end);
        names_add(&t->from->pieces, key);
        free(key);
    }
    free(whole);
    cell_free(&c);
    return once;
}

static void take(taker *t, const char *source, const char *file);

static void take_header(taker *t, const char *path)
{
    char *code = read_whole_file(path), real[PATH_MAX];
    const char *key = realpath(path, real) ? real : path;
    bool seen = names_have(&t->from->paths, key);
    bool once = code && trim(t, key, code);
    if (code && !(once && seen)) {
        names_add(&t->from->paths, key);
        begin_origin(t, path, 1);
        t->depth++;
        take(t, code, path);
        t->depth--;
        if (t->out.size && t->out.data[t->out.size - 1] != '\n') add(t, "\n", 1);
    }
    free(code);
}

static void take(taker *t, const char *source, const char *file)
{
    cell c = cell_split(source);
    size_t at = 0;
    for (size_t i = 0; i < c.count; i++) {
        const token *one = &c.tokens.items[c.pieces[i].first];
        char *path = c.pieces[i].kind == PIECE_DIRECTIVE && t->depth < DEEPEST ? quoted_path(source, one) : NULL;
        char *found = path ? path_beside(file, path) : NULL;
        if (found) {
            add(t, source + at, one->begin - at);
            if (t->out.size && t->out.data[t->out.size - 1] != '\n') add(t, "\n", 1);
            take_header(t, found);
            begin_origin(t, file, one->line);
            at = one->end;
        }
        free(found);
        free(path);
    }
    add(t, source + at, strlen(source + at));
    cell_free(&c);
}

char *with_headers(const char *source, const char *name, symbols *session, origins *from)
{
    if (!strstr(source, "include")) return NULL;
    taker t = {.session = session, .from = from, .line = 1};
    take(&t, source, name);
    if (from->count) return text_take(&t.out);
    text_free(&t.out);
    return NULL;
}

const char *origin_of(const origins *from, const char *name, unsigned line, unsigned *there)
{
    *there = line;
    for (size_t i = from ? from->count : 0; i-- > 0;) {
        if (from->items[i].first > line) continue;
        *there = from->items[i].line + (line - from->items[i].first);
        return from->items[i].file;
    }
    return name;
}

void commit_headers(const origins *from, symbols *session)
{
    names *known = symbols_headers(session, from->at_ranks), kept = {0};
    for (size_t i = 0; i < known->count; i++) { /* of a header that was read anew, only what it has now */
        bool anew = false;
        for (size_t k = 0; k < from->paths.count && !anew; k++) {
            size_t size = strlen(from->paths.items[k]);
            anew = !strncmp(known->items[i], from->paths.items[k], size) && known->items[i][size] == '\n';
        }
        if (!anew) names_add(&kept, known->items[i]);
    }
    names_add_all(&kept, &from->pieces);
    names_free(known);
    *known = kept;
}

void headers_lost(symbols *session)
{
    names *known = symbols_headers(session, false);
    for (size_t i = 0; i < known->count; i++) known->items[i][strcspn(known->items[i], "\n") + 1] = '\0';
}

void origins_free(origins *from)
{
    for (size_t i = 0; i < from->count; i++) free(from->items[i].file);
    free(from->items);
    names_free(&from->paths);
    names_free(&from->pieces);
    *from = (origins){0};
}

static bool has_header(const names *known, const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < known->count; i++) {
        size_t path = strcspn(known->items[i], "\n");
        if (path > size && known->items[i][path - size - 1] == '/' &&
            !strncmp(known->items[i] + path - size, name, size))
            return true;
    }
    return false;
}

bool is_header(const symbols *session, const char *name)
{
    symbols *s = (symbols *)(uintptr_t)session;
    return has_header(symbols_headers(s, false), name) || has_header(symbols_headers(s, true), name);
}
