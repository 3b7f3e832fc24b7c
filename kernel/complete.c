/* Completion. Read first: help.h, cells/unit.h. */
#define _GNU_SOURCE
#include "cells/nearest.h"
#include "help.h"
#include "magics/magics.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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
    if (!strcmp(name, "linux") || !strcmp(name, "unix") || ends_with(name, "_kind")) return true;
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

static const char *kind_name(enum CXCursorKind kind)
{
    switch (kind) {
    case CXCursor_FunctionDecl: return "function";
    case CXCursor_VarDecl:
    case CXCursor_ParmDecl: return "instance";
    case CXCursor_FieldDecl: return "property";
    case CXCursor_MacroDefinition: return "macro";
    case CXCursor_EnumConstantDecl: return "constant";
    case CXCursor_StructDecl:
    case CXCursor_UnionDecl:
    case CXCursor_EnumDecl:
    case CXCursor_TypedefDecl: return "type";
    default: return "keyword";
    }
}

/* "(double x) -> double": what stands behind a function's name, and its result. Or the type of anything else. */
static char *signature_of(CXCompletionString string)
{
    text call = {0};
    char *type = NULL;
    bool behind = false;
    for (unsigned k = 0; k < clang_getNumCompletionChunks(string); k++) {
        enum CXCompletionChunkKind kind = clang_getCompletionChunkKind(string, k);
        char *chunk = clang_text(clang_getCompletionChunkText(string, k));
        if (kind == CXCompletionChunk_TypedText) behind = true;
        else if (kind == CXCompletionChunk_ResultType && !type) type = copy_of(chunk);
        else if (behind && kind != CXCompletionChunk_Optional) text_add(&call, chunk);
        free(chunk);
    }
    char *whole = call.size && type ? format_text("%s -> %s", call.data, type)
                                    : copy_of(call.size ? call.data
                                              : type    ? type
                                                        : "");
    text_free(&call);
    free(type);
    return whole;
}

/* A match, with what it is: "name\x1ffunction\x1f(int a) -> int". */
static void add_match(names *into, const char *name, enum CXCursorKind kind, CXCompletionString string)
{
    char *signature = signature_of(string), *match = format_text("%s\x1f%s\x1f%s", name, kind_name(kind), signature);
    names_add(into, match, strlen(match));
    free(match);
    free(signature);
}

static size_t match_size(const char *match)
{
    return strcspn(match, "\x1f");
}

/* One entry of what JupyterLab shows beside the names. */
static json_t *typed_match(const char *match, int start, int end)
{
    size_t size = match_size(match);
    char *name = copy_of_bytes(match, size);
    const char *kind = match[size] ? match + size + 1 : "";
    size_t kind_size = match_size(kind);
    char *type = copy_of_bytes(kind, kind_size);
    json_t *one = json_pack("{s:s, s:s, s:s, s:i, s:i}", "text", name, "type", *type ? type : "<unknown>", "signature",
                            kind[kind_size] ? kind + kind_size + 1 : "", "start", start, "end", end);
    free(type);
    free(name);
    return one;
}

static void collect(CXCodeCompleteResults *results, const char *start, names *into)
{
    for (unsigned i = 0; i < results->NumResults; i++) {
        CXCompletionString string = results->Results[i].CompletionString;
        if (clang_getCompletionAvailability(string) == CXAvailability_NotAccessible || of_the_macro(string)) continue;
        for (unsigned k = 0; k < clang_getNumCompletionChunks(string); k++) {
            if (clang_getCompletionChunkKind(string, k) != CXCompletionChunk_TypedText) continue;
            char *name = clang_text(clang_getCompletionChunkText(string, k));
            if (!strncmp(name, start, strlen(start)) && !hidden(name, start))
                add_match(into, name, results->Results[i].CursorKind, string);
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

/* "add\x1ffunction\x1f(int a) -> int", of what an earlier cell defined. */
static char *match_of(const entity *e)
{
    const char *name = e->shown ? strstr(e->shown, e->name) : NULL;
    if (e->kind == ENTITY_VARIABLE) return format_text("%s\x1finstance\x1f%s", e->name, e->type ? e->type : "");
    size_t before = name ? (size_t)(name - e->shown) : 0;
    while (before > 0 && e->shown[before - 1] == ' ') before--;
    return name ? format_text("%s\x1f"
                              "function\x1f%s -> %.*s",
                              e->name, name + strlen(e->name), (int)before, e->shown)
                : format_text("%s\x1f"
                              "function\x1f",
                              e->name);
}

static void add_entity_names(entity *e, void *closure)
{
    names *into = closure;
    if (e->name && (e->kind == ENTITY_VARIABLE || e->kind == ENTITY_FUNCTION)) {
        char *match = match_of(e);
        names_add(into, match, strlen(match));
        free(match);
        return;
    }
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

/* `kolo_fit(model, data, .` : the option's name is being written. */
static bool option_here(session *s, const char *code, size_t word, const char *start, names *into)
{
    if (!word || code[word - 1] != '.') return false;
    size_t before = word - 1, begin, end;
    while (before > 0 && isspace((unsigned char)code[before - 1])) before--;
    if (!before || !strchr(",(", code[before - 1]) || !call_around(code, word, 0, &begin, &end)) return false;
    char *call = copy_of_bytes(code + begin, end - begin);
    names all = {0};
    bool any = !strncmp(call, "kolo_", 5) && complete_options(s, call, start, &all);
    for (size_t i = 0; i < all.count; i++) { /* what the call has been given already is not offered again */
        char *given = format_text(".%s =", all.items[i]);
        const char *there = strstr(code + end, given);
        if (!there || there > code + word) names_add(into, all.items[i], strlen(all.items[i]));
        free(given);
    }
    names_free(&all);
    free(call);
    return any;
}

static bool in_directive(const char *code, size_t at)
{
    while (at > 0 && code[at - 1] != '\n') at--;
    return code[at + strspn(code + at, " \t")] == '#';
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
    } else if (!line_is_c(code, cursor)) {
        word = path_begin(code, cursor);
        char *path = copy_of_bytes(code + word, cursor - word);
        complete_files(path, &found);
        free(path);
    } else if (!option_here(s, code, word, start, &found)) {
        bool member =
            word > 0 && (code[word - 1] == '.' || (word > 1 && code[word - 1] == '>' && code[word - 2] == '-'));
        if (!member && *start) complete_session(s, start, &found);
        if (!member && *start && !in_directive(code, word)) complete_keywords(start, &found);
        complete_c(s, code, cursor, word, &found);
    }
    if (found.count) qsort(found.items, found.count, sizeof *found.items, by_text);
    json_t *matches = json_array(), *typed = json_array();
    int from = characters_of(code, word);
    for (size_t i = 0; i < found.count; i++) {
        size_t size = match_size(found.items[i]);
        bool last = i + 1 == found.count || match_size(found.items[i + 1]) != size ||
                    strncmp(found.items[i], found.items[i + 1], size);
        if (!last) continue; /* of the same name: the one that says most stands last */
        json_array_append_new(matches, json_stringn(found.items[i], size));
        json_array_append_new(typed, typed_match(found.items[i], from, cursor_characters));
    }
    names_free(&found);
    free(start);
    json_t *reply = json_pack("{s:s, s:o, s:i, s:i, s:{s:o}}", "status", "ok", "matches", matches, "cursor_start", from,
                              "cursor_end", cursor_characters, "metadata", "_jupyter_types_experimental", typed);
    char *dump = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    pthread_mutex_unlock(&s->busy);
    return need(dump);
}
