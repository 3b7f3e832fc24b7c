/* clang's completions at the cursor, in the cell's own unit. See complete.h, cells/unit.h. */
#define _GNU_SOURCE
#include "help/complete.h"
#include "trial.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { CLANG_CONSTANT = 65 }; /* clang's priority of constants; what fits the wanted type has a smaller one */

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
    if (!strncmp(name, "unnamed_", 8) || !strcmp(name, "kolo_value") || !strcmp(name, "kolo_cursor")) return true;
    if (!strcmp(name, "linux") || !strcmp(name, "unix") || ends_with(name, "_kind")) return true;
    if (!strncmp(name, "KOLO_", 5) && ends_with(name, "_")) return true; /* a part of another macro */
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

/* "(double x) -> double": a function's parameters and its result. Anything else gives its type. */
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
    hide_tags(whole);
    return whole;
}

const char *tag_word(const char *code, size_t word)
{
    size_t end = word;
    while (end > 0 && isspace((unsigned char)code[end - 1])) end--;
    if (end == word) return NULL;
    for (const char *const *tag = (const char *const[]){"struct", "union", "enum", NULL}; *tag; tag++) {
        size_t size = strlen(*tag);
        if (end >= size && !strncmp(code + end - size, *tag, size) && (end == size || !word_byte(code[end - size - 1])))
            return *tag;
    }
    return NULL;
}

static bool fits_tag(enum CXCursorKind kind, const char *tag)
{
    return !tag || kind == (*tag == 's' ? CXCursor_StructDecl : *tag == 'u' ? CXCursor_UnionDecl : CXCursor_EnumDecl);
}

static bool written_in(const char *code, const char *name)
{
    size_t size = strlen(name);
    for (const char *p = code; (p = strstr(p, name)); p++) {
        if (!word_byte(p[size]) && (p == code || !word_byte(p[-1]))) return true;
    }
    return false;
}

static rank_of_match rank_in(const writing *w, const parsed_cell *parsed, const char *name, enum CXCursorKind kind,
                             unsigned priority)
{
    char *key = format_text("o:%s", name);
    bool here = parsed_cell_find(parsed, key) != NULL, known = symbols_find(w->s->symbols, key) != NULL;
    free(key);
    if (kind == CXCursor_EnumConstantDecl && priority < CLANG_CONSTANT) return FITS;
    if (here || kind == CXCursor_ParmDecl || kind == CXCursor_FieldDecl) return LOCAL;
    if (kind == CXCursor_VarDecl && !known && written_in(w->code, name)) return LOCAL;
    return known ? KNOWN : OTHER;
}

static void collect(const writing *w, const parsed_cell *parsed, CXCodeCompleteResults *results, matches *into)
{
    const char *tag = tag_word(w->code, w->word);
    for (unsigned i = 0; i < results->NumResults; i++) {
        CXCompletionString string = results->Results[i].CompletionString;
        enum CXCursorKind kind = results->Results[i].CursorKind;
        if (clang_getCompletionAvailability(string) == CXAvailability_NotAccessible || of_the_macro(string)) continue;
        for (unsigned k = 0; fits_tag(kind, tag) && k < clang_getNumCompletionChunks(string); k++) {
            if (clang_getCompletionChunkKind(string, k) != CXCompletionChunk_TypedText) continue;
            char *name = clang_text(clang_getCompletionChunkText(string, k));
            if (begins(name, w->start) && !hidden(name, w->start)) {
                char *signature = signature_of(string);
                match_add(into, rank_in(w, parsed, name, kind, clang_getCompletionPriority(string)), name,
                          kind_name(kind), signature);
                free(signature);
            }
            free(name);
        }
    }
}

static void ask_clang(const writing *w, const parsed_cell *parsed, const text *code, const char *at, matches *into)
{
    analyser *a = &w->s->analyser;
    size_t byte = (size_t)(at - code->data);
    unsigned line = line_number(code->data, byte), column = (unsigned)(byte - line_start(code->data, byte)) + 1;
    struct CXUnsavedFile file = {a->path, code->data, code->size};
    if (trial_of(a, code, TRIAL_OF_HELP, -1) != TRIAL_PASSED) return;
    if (!a->unit) analyser_parse(a, code->data, code->size);
    CXCodeCompleteResults *results =
        a->unit ? clang_codeCompleteAt(a->unit, a->path, line, column, &file, 1, CXCodeComplete_IncludeMacros) : NULL;
    if (!results) return;
    collect(w, parsed, results, into);
    clang_disposeCodeCompleteResults(results);
}

/* The last place at which the cursor stands in the unit: an initialiser may stand there twice. */
static const char *cursor_in(const text *code)
{
    const char *at = NULL;
    for (const char *p = code->data; (p = strstr(p, "kolo_cursor")); p++) at = p;
    return at;
}

/* The unit of the code with the cursor behind it. */
static void complete_behind(const writing *w, const char *head, matches *into)
{
    session *s = w->s;
    char *plain = as_c(head), *marked = format_text("%s kolo_cursor", plain);
    parsed_cell parsed = parsed_behind(s, marked, "kolo.h");
    unit u = unit_of(&parsed, s->symbols, VALUE_NONE, NULL);
    const char *at = cursor_in(&u.source);
    if (at) ask_clang(w, &parsed, &u.source, at, into);
    text_free(&u.source);
    parsed_cell_free(&parsed);
    free(marked);
    free(plain);
}

bool complete_through_pointer(const writing *w, matches *into)
{
    char *head = copy_of_bytes(w->code, w->word - 1), *arrow = format_text("%s->", head);
    matches found = {0};
    complete_behind(w, arrow, &found);
    for (size_t i = 0; i < found.count; i++) {
        const match *m = &found.items[i];
        char *name = format_text("->%s", m->name);
        if (!strcmp(m->type, "property")) match_add(into, LOCAL, name, m->type, m->signature);
        free(name);
    }
    bool any = into->count > 0;
    matches_free(&found);
    free(arrow);
    free(head);
    return any;
}

void complete_c(const writing *w, matches *into)
{
    char *head = copy_of_bytes(w->code, w->word), *element = of_element(head), *type = wanted_type(w);
    complete_behind(w, element ? element : head, into);
    if (type) {
        matches fitting = {0};
        char *probe = format_text("%s kolo_probe = ", type);
        complete_behind(w, probe, &fitting);
        for (size_t i = 0; i < fitting.count; i++) {
            const match *m = &fitting.items[i];
            if (m->rank == FITS) match_add(into, FITS, m->name, m->type, m->signature);
        }
        matches_free(&fitting);
        free(probe);
    }
    free(type);
    free(element);
    free(head);
}
