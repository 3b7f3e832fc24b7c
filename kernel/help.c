#define _GNU_SOURCE
#include "help.h"
#include "cells/standard.h"
#include "magics/magics.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

char *question_of(const char *code)
{
    size_t size = strlen(code);
    while (size && isspace((unsigned char)code[size - 1])) size--;
    if (memchr(code, '\n', size) || size < 2) return NULL;
    if (code[0] == '?') code++, size--;
    else if (code[size - 1] == '?') size--;
    else return NULL;
    while (size && code[0] == '?') code++, size--;
    while (size && code[size - 1] == '?') size--;
    while (size && isspace((unsigned char)*code)) code++, size--;
    for (size_t i = 0; i < size; i++) {
        if (!isalnum((unsigned char)code[i]) && code[i] != '_' && code[i] != '%') return NULL;
    }
    return size ? copy_of_bytes(code, size) : NULL;
}

static char *describe_magic(const char *name)
{
    while (*name == '%') name++;
    text about = {0};
    for (size_t i = 0; i < magics_count; i++) {
        if (strcmp(magics_table[i].name, name)) continue;
        text_addf(&about, "%s%s\n\n%s\n", about.size ? "\n" : "", magics_table[i].usage, magics_table[i].help);
    }
    return about.size ? text_take(&about) : NULL;
}

typedef struct finder {
    const char *name;
    CXCursor found;
    bool any;
} finder;

static enum CXChildVisitResult match_name(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    finder *f = closure;
    (void)parent;
    CXString spelling = clang_getCursorSpelling(cursor);
    const char *text_of_it = clang_getCString(spelling);
    bool match = text_of_it && !strcmp(text_of_it, f->name);
    clang_disposeString(spelling);
    if (match && (!f->any || clang_isCursorDefinition(cursor))) {
        f->found = cursor;
        f->any = true;
    }
    bool enumeration = clang_getCursorKind(cursor) == CXCursor_EnumDecl;
    return enumeration ? CXChildVisit_Recurse : CXChildVisit_Continue;
}

/* The comment before a declaration, as its author wrote it. */
static char *comment_of(CXCursor cursor)
{
    char *raw = clang_text(clang_Cursor_getRawCommentText(cursor));
    if (*raw) return raw;
    free(raw);
    CXFile file;
    unsigned line;
    clang_getExpansionLocation(clang_getCursorLocation(cursor), &file, &line, NULL, NULL);
    char *name = file ? clang_text(clang_getFileName(file)) : copy_of("");
    char *whole = read_whole_file(name), *comment = copy_of("");
    const char *at = whole, *begin = NULL, *end = NULL;
    for (unsigned i = 1; at && *at && i < line; i++) {
        const char *text_at = at + strspn(at, " \t");
        size_t length = strcspn(at, "\n");
        bool opens = !strncmp(text_at, "/*", 2), slashes = !strncmp(text_at, "//", 2);
        bool inside = begin && !end;
        if (opens || (slashes && !begin)) begin = at, end = NULL;
        else if (!inside && !slashes) begin = NULL;
        if (begin && (slashes || memmem(at, length, "*/", 2))) end = at + length;
        at += length + (at[length] == '\n');
    }
    if (begin && end) {
        free(comment);
        comment = copy_of_bytes(begin, (size_t)(end - begin));
    }
    free(whole);
    free(name);
    return comment;
}

/* The struct, union or enum that a name means, with its members; the null cursor when it means something else. */
static CXCursor definition_of(CXCursor cursor)
{
    enum CXCursorKind kind = clang_getCursorKind(cursor);
    if (kind == CXCursor_EnumConstantDecl) return clang_getCursorSemanticParent(cursor);
    if (kind == CXCursor_TypedefDecl)
        cursor = clang_getTypeDeclaration(clang_getCanonicalType(clang_getTypedefDeclUnderlyingType(cursor)));
    kind = clang_getCursorKind(cursor);
    bool has_members = kind == CXCursor_StructDecl || kind == CXCursor_UnionDecl || kind == CXCursor_EnumDecl;
    return has_members ? clang_getCursorDefinition(cursor) : clang_getNullCursor();
}

/* A definition as its author wrote it, comments and all; NULL when the text is not at hand. */
static char *written(session *s, CXCursor definition)
{
    CXSourceRange range = clang_getCursorExtent(definition);
    CXFile file = NULL;
    unsigned begin = 0, end = 0;
    size_t size = 0;
    clang_getFileLocation(clang_getRangeStart(range), &file, NULL, NULL, &begin);
    clang_getFileLocation(clang_getRangeEnd(range), NULL, NULL, NULL, &end);
    const char *code = file ? clang_getFileContents(s->analyser.unit, file, &size) : NULL;
    if (!code || end > size || begin >= end) return NULL;
    char *comment = comment_of(definition), *body = copy_of_bytes(code + begin, end - begin);
    char *about = format_text("%s%s%s;\n", comment, *comment ? "\n" : "", body);
    free(comment);
    free(body);
    return about;
}

static char *describe_cursor(session *s, CXCursor cursor)
{
    CXCursor definition = definition_of(cursor);
    char *as_written = clang_Cursor_isNull(definition) ? NULL : written(s, definition);
    if (as_written) return as_written;
    CXPrintingPolicy policy = clang_getCursorPrintingPolicy(cursor);
    clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_TerseOutput, 1);
    clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_PolishForDeclaration, 1);
    if (clang_getCursorKind(cursor) == CXCursor_StructDecl || clang_getCursorKind(cursor) == CXCursor_EnumDecl ||
        clang_getCursorKind(cursor) == CXCursor_UnionDecl) {
        clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_TerseOutput, 0);
    }
    char *printed = clang_text(clang_getCursorPrettyPrinted(cursor, policy)), *comment = comment_of(cursor);
    clang_PrintingPolicy_dispose(policy);
    char *about = format_text("%s%s%s\n", printed, *comment ? "\n\n" : "", comment);
    free(printed);
    free(comment);
    return about;
}

/* The comment that ends right before `at` of a file's text. */
static char *comment_before(const char *whole, const char *at)
{
    while (at > whole && isspace((unsigned char)at[-1])) at--;
    if (at - whole < 4 || strncmp(at - 2, "*/", 2)) return copy_of("");
    const char *begin = at - 2;
    while (begin > whole && strncmp(begin, "/*", 2)) begin--;
    return copy_of_bytes(begin, (size_t)(at - begin));
}

/* A line of kolo.h's that no caller writes: the place holder, and the guard behind the positional arguments. */
static bool internal_line(const char *line, size_t size, const char *what)
{
    const char *begin = line + strspn(line, " ");
    return (size_t)(begin - line) + strlen(what) == size && !strncmp(begin, what, strlen(what));
}

/* Adds the names declared in a line of a struct: "int height, width; // …" gives "height, width". */
static void add_declared(text *into, const char *line, size_t size)
{
    size_t name = 0, name_end = 0;
    for (size_t i = 0; i < size; i++) {
        bool letter = isalnum((unsigned char)line[i]) || line[i] == '_';
        if (letter && (!i || !(isalnum((unsigned char)line[i - 1]) || line[i - 1] == '_'))) name = i;
        if (letter) name_end = i + 1;
        if (line[i] == '[' || line[i] == '/') break;
        if (line[i] == ',' || line[i] == ';')
            text_addf(into, "%s%.*s", into->size ? ", " : "", (int)(name_end - name), line + name);
    }
}

/* The members of a call's options: what stands before the guard is positional, what stands behind it has a name. */
static void split_options(const char *body, const char *end, text *positional, text *positional_lines,
                          text *named_lines)
{
    bool named = false;
    while (body < end) {
        size_t size = strcspn(body, "\n");
        bool skip = !size || internal_line(body, size, "int _;");
        if (internal_line(body, size, "kolo_guard *guard;")) {
            named = true;
        } else if (!skip) {
            text_addf(named ? named_lines : positional_lines, "%.*s\n", (int)size, body);
            if (!named) add_declared(positional, body, size);
        }
        body += size + (body[size] == '\n');
    }
}

/* kolo_fit(model, data, .option = …), the comment about it, and its options with theirs. */
static char *page_of_call(const char *name, const char *macro_comment, const char *about, const char *body,
                          const char *end)
{
    text positional = {0}, positional_lines = {0}, named_lines = {0}, out = {0};
    split_options(body, end, &positional, &positional_lines, &named_lines);
    text_addf(&out, "%s(%s%s%s)\n", name, positional.size ? positional.data : "",
              positional.size && named_lines.size ? ", " : "", named_lines.size ? ".option = …" : "");
    if (*macro_comment) text_addf(&out, "\n%s\n", macro_comment);
    if (*about) text_addf(&out, "\n%s\n", about);
    if (positional.size) text_addf(&out, "\nArguments:\n%s", positional_lines.data);
    if (named_lines.size) text_addf(&out, "\nOptions:\n%s", named_lines.data);
    text_free(&positional);
    text_free(&positional_lines);
    text_free(&named_lines);
    return text_take(&out);
}

/* A call of kolo.h's is a macro over a helper: kolo_fit(…) fills a kolo_fit_args and calls kolo_fit_at(). What its user
 * wants to see is the macro's own comment and the options. */
static char *describe_call(const char *name, const char *file)
{
    char *whole = read_whole_file(file), *line = format_text("#define %s(", name), *about = NULL;
    char *options = format_text("typedef struct %s_args {", name), *options_end = format_text("} %s_args;", name);
    const char *macro = whole ? strstr(whole, line) : NULL;
    const char *begin = macro ? strstr(whole, options) : NULL, *end = begin ? strstr(begin, options_end) : NULL;
    if (macro) {
        char *comment = comment_before(whole, macro),
             *about_options = begin ? comment_before(whole, begin) : copy_of("");
        const char *close = strchr(macro, ')');
        if (end) about = page_of_call(name, comment, about_options, begin + strlen(options), end);
        else
            about = format_text("%.*s\n%s%s\n", (int)(close ? close - macro - 7 : 0), macro + 8, *comment ? "\n" : "",
                                comment);
        free(comment);
        free(about_options);
    }
    free(whole);
    free(line);
    free(options);
    free(options_end);
    return about;
}

/* kolo.h as a whole, from the first folder among the flags that has it; NULL when none has. */
static char *read_kolo_header(const session *s)
{
    char *whole = NULL;
    for (size_t i = 0; i < s->base_flags.count && !whole; i++) {
        if (strncmp(s->base_flags.items[i], "-I", 2)) continue;
        char *path = format_text("%s/kolo.h", s->base_flags.items[i] + 2);
        whole = read_whole_file(path);
        free(path);
    }
    return whole;
}

/* Adds the names that the lines of a struct declare, one line after the other. */
static void add_all_declared(text *names_of, const char *lines)
{
    for (; *lines; lines += strcspn(lines, "\n"), lines += *lines == '\n') {
        const char *begin = lines + strspn(lines, " ");
        if (*begin != '/' && *begin != '*') add_declared(names_of, lines, strcspn(lines, "\n"));
    }
}

char *call_options(session *s, const char *name)
{
    char *whole = read_kolo_header(s), *found = NULL;
    char *begin_text = format_text("typedef struct %s_args {", name), *end_text = format_text("} %s_args;", name);
    const char *begin = whole ? strstr(whole, begin_text) : NULL, *end = begin ? strstr(begin, end_text) : NULL;
    if (end) {
        text positional = {0}, positional_lines = {0}, named_lines = {0}, all = {0};
        split_options(begin + strlen(begin_text), end, &positional, &positional_lines, &named_lines);
        if (named_lines.size) add_all_declared(&all, named_lines.data);
        found = text_take(&all);
        text_free(&positional);
        text_free(&positional_lines);
        text_free(&named_lines);
    }
    free(begin_text);
    free(end_text);
    free(whole);
    return found;
}

static char *describe_helper(session *s, const char *name)
{
    for (const char *const *tail = (const char *const[]){"_at", "_args", "_kind", NULL}; *tail; tail++) {
        char *helper = format_text("%s%s", name, *tail), *about = NULL;
        finder f = {.name = helper};
        clang_visitChildren(clang_getTranslationUnitCursor(s->analyser.unit), match_name, &f);
        if (f.any) {
            CXFile file;
            clang_getExpansionLocation(clang_getCursorLocation(f.found), &file, NULL, NULL, NULL);
            char *path = clang_text(clang_getFileName(file));
            about = describe_call(name, path);
            free(path);
        }
        free(helper);
        if (about) return about;
    }
    return NULL;
}

/* A name of the C library whose header no cell has included yet. */
static char *describe_standard(session *s, const char *name)
{
    const char *header = standard_declaring(&s->analyser, name);
    if (!header) return NULL;
    char *whole = format_text("%s\n#include <%s>\n", s->prefix, header);
    analyser_parse(&s->analyser, whole, strlen(whole));
    free(whole);
    finder f = {.name = name};
    if (s->analyser.unit) clang_visitChildren(clang_getTranslationUnitCursor(s->analyser.unit), match_name, &f);
    char *found = f.any ? describe_cursor(s, f.found) : format_text("%s is a macro\n", name);
    char *about = format_text("#include <%s>\n\n%s", header, found);
    free(found);
    return about;
}

char *describe(session *s, const char *name)
{
    char *magic_help = *name == '%' ? describe_magic(name) : NULL;
    if (magic_help) return magic_help;
    entity *e = NULL;
    for (const char *space = "omt"; *space && !e; space++)
        e = symbols_find_bytes(s->symbols, *space, name, strlen(name));
    if (e) {
        bool typed = e->kind == ENTITY_VARIABLE && e->type;
        return typed ? format_text("%s\n\n%s, %zu bytes\n", e->shown, e->type, e->size) : format_text("%s\n", e->shown);
    }
    char *with_kolo = format_text("%s\n#include <kolo.h>\n", s->prefix);
    analyser_parse(&s->analyser, with_kolo, strlen(with_kolo));
    free(with_kolo);
    if (!s->analyser.unit) return NULL;
    finder f = {.name = name};
    clang_visitChildren(clang_getTranslationUnitCursor(s->analyser.unit), match_name, &f);
    char *about = f.any ? describe_cursor(s, f.found) : describe_helper(s, name);
    return about ? about : describe_standard(s, name);
}

result answer_question(session *s, const char *name)
{
    char *about = describe(s, name);
    if (!about) return error_result("NameError", "nothing is known of '%s'", name);
    result r = {.payload =
                    json_pack("[{s:s, s:i, s:{s:s}}]", "source", "page", "start", 0, "data", "text/plain", about)};
    free(about);
    return r;
}
