#define _GNU_SOURCE
#include "diagnostics/nearest.h"
#include "cells/split.h"
#include "diagnostics/hints.h"
#include "cells/lexer.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Edits that turn one into the other; two neighbours that changed places are one, as is a letter of the other case. */
size_t distance_of(const char *a, size_t size, const char *b)
{
    size_t width = strlen(b), rows[3][64];
    if (width >= 63) return 1000;
    for (size_t j = 0; j <= width; j++) rows[0][j] = j;
    for (size_t i = 1; i <= size; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[size % 3][width];
}

static size_t likeness_limit(const char *name)
{
    size_t size = strlen(name);
    return size < 3 ? 0 : size < 6 ? 1 : size < 10 ? 2 : 3;
}

bool alike(const char *name, const char *candidate)
{
    return !strcasecmp(name, candidate) || distance_of(name, strlen(name), candidate) <= likeness_limit(name);
}

bool call_around(const char *code, size_t at, unsigned outer, size_t *begin, size_t *end)
{
    char *before = copy_of_bytes(code, at);
    token_list tokens = tokens_of(before);
    unsigned depth = 0;
    bool found = false;
    for (size_t i = tokens.count; i-- > 0 && !found;) {
        const token *t = &tokens.items[i];
        if (t->kind != TOKEN_PUNCTUATION) continue;
        char c = t->end - t->begin == 1 ? before[t->begin] : 0;
        if (c == ')' || c == ']' || c == '}') depth++;
        if ((c == '[' || c == '{') && depth) depth--;
        if (c != '(') continue;
        if (depth) {
            depth--;
        } else if (i && tokens.items[i - 1].kind == TOKEN_NAME && !outer--) {
            *begin = tokens.items[i - 1].begin;
            *end = tokens.items[i - 1].end;
            found = true;
        }
    }
    tokens_free(&tokens);
    free(before);
    return found;
}

/* The name of the call in which clang found something, "" when there is none. */
static char *call_at(CXTranslationUnit unit, CXSourceLocation location)
{
    CXFile file;
    unsigned offset;
    size_t size = 0, begin, end;
    clang_getFileLocation(location, &file, NULL, NULL, &offset);
    const char *code = file ? clang_getFileContents(unit, file, &size) : NULL;
    if (!code || offset > size || !call_around(code, offset, 0, &begin, &end)) return copy_of("");
    return copy_of_bytes(code + begin, end - begin);
}

/* The text in quotes after `before`, without its quotes; NULL when the message has no such part. */
static char *quoted_after(const char *message, const char *before)
{
    const char *from = strstr(message, before);
    from = from ? strchr(from + strlen(before) - 1, '\'') : NULL;
    const char *to = from ? strchr(from + 1, '\'') : NULL;
    return to ? copy_of_bytes(from + 1, (size_t)(to - from) - 1) : NULL;
}

void keep_nearer(nearest_name *n, const char *candidate, size_t far)
{
    if (far >= n->best) return;
    n->best = far;
    free(n->found);
    n->found = copy_of(candidate);
}

void consider(nearest_name *n, const char *candidate)
{
    if (!strcmp(candidate, n->wanted) || !alike(n->wanted, candidate)) return;
    size_t far = strcasecmp(n->wanted, candidate) ? distance_of(n->wanted, strlen(n->wanted), candidate) : 0;
    keep_nearer(n, candidate, far);
}

static void consider_entity(entity *e, void *closure)
{
    for (size_t i = 0; i < e->defines.count; i++) {
        if (e->defines.items[i][0] != 't') consider(closure, e->defines.items[i] + 2);
    }
}

/* "kolo_fit has no option '.epoch'; did you mean '.epochs'?" */
static char *about_option(const char *message)
{
    char *field = quoted_after(message, "field designator '"), *type = quoted_after(message, "in type '");
    char *meant = quoted_after(message, "did you mean '"), *better = NULL;
    const char *plain = type && !strncmp(type, "const ", 6) ? type + 6 : type;
    size_t size = plain ? strlen(plain) : 0;
    if (field && size > 10 && !strncmp(plain, "kolo_", 5) && !strcmp(plain + size - 5, "_args")) {
        char *hint = meant ? format_text("; did you mean '.%s'?", meant) : copy_of("");
        better = format_text("%.*s has no option '.%s'%s", (int)size - 5, plain, field, hint);
        free(hint);
    }
    free(field);
    free(type);
    free(meant);
    return better;
}

/* clang knows the headers' names and the cell's; of the session it sees only what the cell uses. */
static char *about_name(const char *message, const symbols *session)
{
    char *name = quoted_after(message, "undeclared "), *better = NULL;
    if (!name) name = quoted_after(message, "unknown type name '");
    const char *old = strstr(message, "; did you mean '");
    char *meant = old ? quoted_after(old, "mean '") : NULL;
    if (name) {
        nearest_name s = {.wanted = name, .best = SIZE_MAX};
        if (meant) consider(&s, meant);
        symbols_each(session, consider_entity, &s);
        size_t size = s.found ? strlen(s.found) : 0;
        bool behind = size > 8 && !strncmp(s.found, "kolo_", 5) && !strcmp(s.found + size - 3, "_at");
        if (behind) s.found[size - 3] = 0; /* the function behind one of libkolo's macros */
        size_t keep = strcspn(message, ";"); /* of C99's rules behind it, and of clang's guess */
        if (s.found && !of_other_language(message) && strncmp(s.found, "kolo_cell_", 10) && strncmp(s.found, "__", 2))
            better = format_text("%.*s; did you mean '%s'?", (int)keep, message, s.found);
        else better = copy_of_bytes(message, keep);
        free(s.found);
    }
    free(name);
    free(meant);
    return better;
}

/* "library function 'exit' with type 'void (int) …'" says no more than "function 'exit'"; C has no 2'147'483'648. */
static void drop_detail(char *message)
{
    char *library = strstr(message, "undeclared library function '"), *type = strstr(message, "' with type '");
    if (library && type) {
        type[1] = 0;
        char *word = library + strlen("undeclared ");
        memmove(word, word + strlen("library "), strlen(word + strlen("library ")) + 1);
    }
    char *to = message;
    for (const char *p = message; *p; p++) {
        bool mark = *p == '\'' && p > message && isdigit((unsigned char)p[-1]) && isdigit((unsigned char)p[1]);
        if (!mark) *to++ = *p;
    }
    *to = 0;
}

char *plainer(CXTranslationUnit unit, CXSourceLocation location, const char *message, const symbols *session)
{
    char *better = NULL;
    if (strstr(message, "'kolo_guard *'")) {
        char *call = call_at(unit, location);
        better = format_text("%s%san option's name was forgotten here: write .name = value", call, *call ? ": " : "");
        free(call);
    } else if (strstr(message, "field designator '")) {
        better = about_option(message);
    } else if (strstr(message, "function 'In_")) {
        better = copy_of("'return' with a value stands outside a function");
    } else if (strstr(message, "undeclared ") || strstr(message, "unknown type name '")) {
        better = about_name(message, session);
    }
    if (!better) better = copy_of(message);
    hide_tags(better);
    drop_detail(better);
    return better;
}
