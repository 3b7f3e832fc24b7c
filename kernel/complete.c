/* Completion, inspection under the cursor, and whether a cell is complete. Read first: help.h, cells/unit.h. */
#define _GNU_SOURCE
#include "cells/nearest.h"
#include "help.h"
#include "magics/magics.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const char *code, int characters)
{
    size_t at = 0;
    for (; code[at] && characters > 0; characters--) {
        at++;
        while (((unsigned char)code[at] & 0xc0) == 0x80) at++;
    }
    return at;
}

static int characters_of(const char *code, size_t bytes)
{
    int count = 0;
    for (size_t i = 0; i < bytes && code[i]; i++) count += ((unsigned char)code[i] & 0xc0) != 0x80;
    return count;
}

static bool word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool ends_with(const char *name, const char *tail)
{
    size_t a = strlen(name), b = strlen(tail);
    return a >= b && !strcmp(name + a - b, tail);
}

/* Names that a cell's author has no business with. */
static bool hidden(const char *name, const char *start)
{
    if (!strncmp(name, "kolo_", 5) && (ends_with(name, "_at") || ends_with(name, "_args"))) return true;
    if (!strncmp(name, "kolo_cell_", 10) || !strncmp(name, "In_", 3) || !strcmp(name, "_")) return true;
    return name[0] == '_' && start[0] != '_';
}

/* Members of a call's options that its macro fills in. */
static bool of_the_macro(CXCompletionString string)
{
    bool guard = false;
    for (unsigned k = 0; k < clang_getNumCompletionChunks(string); k++) {
        char *chunk = clang_text(clang_getCompletionChunkText(string, k));
        if (clang_getCompletionChunkKind(string, k) == CXCompletionChunk_ResultType)
            guard |= !strcmp(chunk, "kolo_guard *");
        free(chunk);
    }
    return guard;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void collect(CXCodeCompleteResults *results, const char *start, names *into)
{
    for (unsigned i = 0; i < results->NumResults; i++) {
        CXCompletionString string = results->Results[i].CompletionString;
        if (clang_getCompletionAvailability(string) == CXAvailability_NotAccessible || of_the_macro(string)) continue;
        for (unsigned k = 0; k < clang_getNumCompletionChunks(string); k++) {
            if (clang_getCompletionChunkKind(string, k) != CXCompletionChunk_TypedText) continue;
            char *name = clang_text(clang_getCompletionChunkText(string, k));
            if (!strncmp(name, start, strlen(start)) && !hidden(name, start)) names_add(into, name, strlen(name));
            free(name);
        }
    }
}

/* The cell up to the cursor's line as a unit, and where in it the cursor is. */
static void complete_c(session *s, const char *code, size_t cursor, size_t word, names *into)
{
    char *head = copy_of_bytes(code, word), *start = copy_of_bytes(code + word, cursor - word);
    char *marked = format_text("%s kolo_cursor", head);
    draft d = draft_of(marked, "In[0]", 0, s->prefix, s->symbols);
    char *with_kolo = strstr(d.prefix.data ? d.prefix.data : "", "kolo.h")
                          ? NULL
                          : format_text("%s#include <kolo.h>\n", d.prefix.data ? d.prefix.data : "");
    if (with_kolo) {
        text_clear(&d.prefix);
        text_add(&d.prefix, with_kolo);
    }
    unit u = unit_of(&d, s->symbols, VALUE_NONE, NULL);
    const char *at = strstr(u.source.data, "kolo_cursor");
    if (at) {
        unsigned line = 1, column = 1;
        for (const char *p = u.source.data; p < at; p++) {
            column = *p == '\n' ? 1 : column + 1;
            line += *p == '\n';
        }
        if (!s->analyser.unit) analyser_parse(&s->analyser, u.source.data, u.source.size);
        struct CXUnsavedFile file = {s->analyser.path, u.source.data, u.source.size};
        CXCodeCompleteResults *results = s->analyser.unit
                                             ? clang_codeCompleteAt(s->analyser.unit, s->analyser.path, line, column,
                                                                    &file, 1, CXCodeComplete_IncludeMacros)
                                             : NULL;
        if (results) {
            collect(results, start, into);
            clang_disposeCodeCompleteResults(results);
        }
    }
    text_free(&u.source);
    draft_free(&d);
    free(with_kolo);
    free(marked);
    free(head);
    free(start);
}

static void add_entity_names(entity *e, void *closure)
{
    names *into = closure;
    for (size_t i = 0; i < e->defines.count; i++) {
        if (strncmp(e->defines.items[i], "t:unnamed_", 10))
            names_add(into, e->defines.items[i] + 2, strlen(e->defines.items[i] + 2));
    }
}

static void complete_session(session *s, const char *start, names *into)
{
    names all = {0};
    symbols_each(s->symbols, add_entity_names, &all);
    for (size_t i = 0; i < all.count; i++) {
        if (!strncmp(all.items[i], start, strlen(start))) names_add(into, all.items[i], strlen(all.items[i]));
    }
    names_free(&all);
}

static void complete_magic(const char *start, names *into)
{
    for (size_t i = 0; i < magics_count; i++) {
        char *name = format_text("%s%s", magics_table[i].cell ? "%%" : "%", magics_table[i].name);
        if (!strncmp(name, start, strlen(start))) names_add(into, name, strlen(name));
        free(name);
    }
}

char *session_complete(session *s, const char *code, int cursor_characters)
{
    pthread_mutex_lock(&s->busy);
    size_t cursor = bytes_of(code, cursor_characters), word = cursor;
    while (word > 0 && word_byte(code[word - 1])) word--;
    size_t percent = word;
    while (percent > 0 && code[percent - 1] == '%') percent--;
    bool magic_here = percent < word && (percent == 0 || code[percent - 1] == '\n');
    names found = {0};
    char *start = copy_of_bytes(code + word, cursor - word);
    if (magic_here) {
        word = percent;
        char *with_percent = copy_of_bytes(code + word, cursor - word);
        complete_magic(with_percent, &found);
        free(with_percent);
    } else {
        bool member =
            word > 0 && (code[word - 1] == '.' || (word > 1 && code[word - 1] == '>' && code[word - 2] == '-'));
        if (!member && *start) complete_session(s, start, &found);
        complete_c(s, code, cursor, word, &found);
    }
    if (found.count) qsort(found.items, found.count, sizeof *found.items, by_text);
    json_t *matches = json_array();
    for (size_t i = 0; i < found.count; i++) {
        if (!i || strcmp(found.items[i], found.items[i - 1]))
            json_array_append_new(matches, json_string(found.items[i]));
    }
    names_free(&found);
    free(start);
    json_t *reply = json_pack("{s:s, s:o, s:i, s:i, s:{}}", "status", "ok", "matches", matches, "cursor_start",
                              characters_of(code, word), "cursor_end", cursor_characters, "metadata");
    char *dump = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    pthread_mutex_unlock(&s->busy);
    return need(dump);
}

/* Of the name under the cursor, else of the call whose arguments are being written, the innermost that is known. */
static char *describe_at(session *s, const char *code, size_t cursor)
{
    size_t begin = cursor, end = cursor;
    while (begin > 0 && word_byte(code[begin - 1])) begin--;
    while (word_byte(code[end])) end++;
    bool member = begin > 0 && code[begin - 1] == '.';
    while (begin > 0 && code[begin - 1] == '%') begin--;
    char *name = copy_of_bytes(code + begin, end - begin), *about = *name && !member ? describe(s, name) : NULL;
    free(name);
    for (unsigned outer = 0; !about && call_around(code, cursor, outer, &begin, &end); outer++) {
        name = copy_of_bytes(code + begin, end - begin);
        about = describe(s, name);
        free(name);
    }
    return about;
}

char *session_inspect(session *s, const char *code, int cursor_characters, int detail)
{
    (void)detail;
    pthread_mutex_lock(&s->busy);
    char *about = describe_at(s, code, bytes_of(code, cursor_characters));
    json_t *reply = about ? json_pack("{s:s, s:b, s:{s:s}, s:{}}", "status", "ok", "found", 1, "data", "text/plain",
                                      about, "metadata")
                          : json_pack("{s:s, s:b, s:{}, s:{}}", "status", "ok", "found", 0, "data", "metadata");
    char *dump = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    free(about);
    pthread_mutex_unlock(&s->busy);
    return need(dump);
}

/* As deep as the brackets that are open. */
static char *indentation(const cell *c)
{
    int depth = 0;
    for (size_t i = 0; i < c->tokens.count; i++) {
        if (c->tokens.items[i].kind != TOKEN_PUNCTUATION || c->tokens.items[i].end - c->tokens.items[i].begin != 1)
            continue;
        char b = c->source[c->tokens.items[i].begin];
        depth += (b == '{' || b == '(' || b == '[') - (b == '}' || b == ')' || b == ']');
    }
    text spaces = {0};
    for (; depth > 0; depth--) text_add(&spaces, "    ");
    return text_take(&spaces);
}

char *session_is_complete(session *s, const char *code)
{
    (void)s;
    cell c = cell_split(code);
    size_t size = strlen(code);
    bool continued = size && code[size - 1] == '\\';
    bool cell_magic = !strncmp(code, "%%", 2) && !(size > 1 && code[size - 1] == '\n');
    const char *status = c.stray ? "invalid" : c.unbalanced || continued || cell_magic ? "incomplete" : "complete";
    char *spaces = strcmp(status, "incomplete") ? copy_of("") : indentation(&c);
    json_t *reply = json_pack("{s:s, s:s}", "status", status, "indent", spaces);
    char *dump = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    free(spaces);
    cell_free(&c);
    return need(dump);
}
