#define _GNU_SOURCE
#include "help.h"
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

static char *describe_cursor(CXCursor cursor)
{
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

/* A call of kolo.h's is a macro over a helper: kolo_fit(…) fills a kolo_fit_args and calls kolo_fit_at(). What its user
 * wants to see is the macro's own comment and the options. */
static char *describe_call(const char *name, const char *file)
{
    char *whole = read_whole_file(file), *line = format_text("#define %s(", name), *about = NULL;
    char *options = format_text("typedef struct %s_args {", name), *options_end = format_text("} %s_args;", name);
    const char *macro = whole ? strstr(whole, line) : NULL;
    if (macro) {
        char *comment = comment_before(whole, macro);
        const char *close = strchr(macro, ')');
        text out = {0};
        text_addf(&out, "%.*s\n", (int)(close ? close - macro - 7 : 0), macro + 8);
        if (*comment) text_addf(&out, "\n%s\n", comment);
        const char *begin = strstr(whole, options), *end = begin ? strstr(begin, options_end) : NULL;
        if (end) {
            char *about_options = comment_before(whole, begin);
            if (*about_options) text_addf(&out, "\n%s", about_options);
            text_addf(&out, "\n%.*s", (int)(end - begin - (ptrdiff_t)strlen(options)) + 1, begin + strlen(options));
            free(about_options);
        }
        free(comment);
        about = text_take(&out);
    }
    free(whole);
    free(line);
    free(options);
    free(options_end);
    return about;
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
    return f.any ? describe_cursor(f.found) : describe_helper(s, name);
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
