#define _GNU_SOURCE
#include "help/help_page.h"
#include "diagnostics/standard.h"
#include "sources.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- layout ---- */

static void trim(char *words)
{
    size_t size = strlen(words);
    while (size && isspace((unsigned char)words[size - 1])) words[--size] = 0;
}

static void add_part(text *out, const char *part)
{
    if (!part || !*part) return;
    text_addf(out, "%s%s\n", out->size ? "\n" : "", part);
}

char *page_text(page *p)
{
    text out = {0};
    if (p->comment) trim(p->comment);
    if (p->facts.data) trim(p->facts.data);
    if (p->rest.data) trim(p->rest.data);
    add_part(&out, p->signature);
    add_part(&out, p->comment);
    add_part(&out, p->facts.data);
    add_part(&out, p->rest.data);
    free(p->signature);
    free(p->comment);
    text_free(&p->facts);
    text_free(&p->rest);
    *p = (page){0};
    return text_take(&out);
}

char *declared_as(const char *type, const char *name)
{
    const char *pointer = strstr(type, "(*"), *bracket = strchr(type, '['), *at = type + strlen(type);
    if (pointer) at = pointer + 2;
    else if (bracket) at = bracket;
    while (!pointer && at > type && at[-1] == ' ') at--;
    const char *space = at > type && at[-1] == '*' ? "" : " ";
    return format_text("%.*s%s%s%s", (int)(at - type), type, space, name,
                       bracket && !pointer ? bracket : at + strspn(at, " "));
}

/* ---- comments ---- */

/* A line of a comment without its leading star. */
static void add_comment_line(text *out, const char *line, size_t size)
{
    while (size && isspace((unsigned char)*line)) line++, size--;
    size_t stars = 0;
    while (stars < size && (line[stars] == '*' || line[stars] == '/')) stars++;
    bool rule = stars == size || line[stars] == ' ' || line[stars] == '<' || line[0] == '/';
    if (rule) line += stars, size -= stars;
    if (size && *line == ' ') line++, size--;
    while (size && isspace((unsigned char)line[size - 1])) size--;
    text_addf(out, "%.*s\n", (int)size, line);
}

char *plain_comment(const char *comment)
{
    text out = {0};
    const char *at = comment + strspn(comment, " \t\n");
    if (!strncmp(at, "/*", 2)) at += 1; /* its star goes with the line's */
    while (*at) {
        size_t size = strcspn(at, "\n"), length = size;
        while (length && isspace((unsigned char)at[length - 1])) length--;
        if (length >= 2 && !strncmp(at + length - 2, "*/", 2)) length -= 2;
        add_comment_line(&out, at, length);
        at += size + (at[size] == '\n');
    }
    char *whole = text_take(&out);
    trim(whole);
    size_t blank = strspn(whole, "\n");
    memmove(whole, whole + blank, strlen(whole + blank) + 1);
    return whole;
}

char *comment_above(const char *code, unsigned line)
{
    const char *at = code, *begin = NULL, *end = NULL;
    for (unsigned i = 1; at && *at && i < line; i++) {
        const char *text_at = at + strspn(at, " \t");
        size_t length = strcspn(at, "\n");
        bool opens = !strncmp(text_at, "/*", 2), slashes = !strncmp(text_at, "//", 2);
        bool inside = begin && !end;
        if (opens || (slashes && !begin)) begin = at, end = NULL;
        else if (!inside && !slashes) begin = NULL;
        const char *close = memmem(at, length, "*/", 2);
        if (close && close[2 + strspn(close + 2, " \t")] != '\n' && opens) begin = NULL; /* code stands behind it */
        if (begin && (slashes || close)) end = at + length;
        at += length + (at[length] == '\n');
    }
    return begin && end ? copy_of_bytes(begin, (size_t)(end - begin)) : copy_of("");
}

static size_t column_of(const char *code, const char *at)
{
    size_t byte = (size_t)(at - code);
    return byte - line_start(code, byte);
}

/* Lines that hold nothing but a // comment go on with one that begins at `at`, when they stand under it. */
static const char *end_of_slashes(const char *code, const char *at)
{
    size_t column = column_of(code, at);
    const char *end = at + strcspn(at, "\n");
    while (*end) {
        const char *next = end + 1 + strspn(end + 1, " \t");
        if (strncmp(next, "//", 2) || column_of(code, next) < column || !column) break;
        end = next + strcspn(next, "\n");
    }
    return end;
}

char *comment_beside(const char *code, unsigned line, unsigned column, bool parameter)
{
    const char *at = code;
    for (unsigned i = 1; at && i < line; i++) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at) return copy_of("");
    size_t length = strcspn(at, "\n");
    char quote = 0;
    for (const char *p = at + (column && column - 1 < length ? column - 1 : 0); p < at + length; p++) {
        if (quote && *p == '\\') p++;
        else if (*p == '"' || *p == '\'') quote = quote == *p ? 0 : quote ? quote : *p;
        if (parameter && !quote && (*p == '{' || *p == ';')) break;
        if (quote || *p != '/') continue;
        if (p[1] == '/') return copy_of_bytes(p, (size_t)(end_of_slashes(code, p) - p));
        const char *close = p[1] == '*' ? strstr(p, "*/") : NULL;
        if (close) return copy_of_bytes(p, (size_t)(close - p) + 2);
    }
    return copy_of("");
}

/* ---- cursors ---- */

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

CXCursor cursor_named(session *s, const char *name)
{
    finder f = {.name = name, .found = clang_getNullCursor()};
    if (s->analyser.unit) clang_visitChildren(clang_getTranslationUnitCursor(s->analyser.unit), match_name, &f);
    return f.found;
}

/* The struct, union or enum that a name means, with its members; the null cursor when it means something else. */
static CXCursor definition_of(CXCursor cursor)
{
    enum CXCursorKind kind = clang_getCursorKind(cursor);
    if (kind == CXCursor_TypedefDecl)
        cursor = clang_getTypeDeclaration(clang_getCanonicalType(clang_getTypedefDeclUnderlyingType(cursor)));
    kind = clang_getCursorKind(cursor);
    bool has_members = kind == CXCursor_StructDecl || kind == CXCursor_UnionDecl || kind == CXCursor_EnumDecl;
    return has_members ? clang_getCursorDefinition(cursor) : clang_getNullCursor();
}

/* A definition as its author wrote it, comments inside and all; NULL when the text is not at hand. */
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
    return copy_of_bytes(code + begin, end - begin);
}

/* Writes "__format" as "format", as the manual does, and leaves `extern` out. */
static char *without_underscores(const char *printed)
{
    text out = {0};
    if (!strncmp(printed, "extern ", 7)) printed += 7;
    for (const char *p = printed; *p; p++) {
        bool begins = p == printed || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
        if (begins && !strncmp(p, "__", 2) && islower((unsigned char)p[2]) && strncmp(p, "__attribute__", 13) &&
            strncmp(p, "__builtin", 9))
            p += 2;
        text_add_bytes(&out, p, 1);
    }
    return text_take(&out);
}

static char *printed(CXCursor cursor)
{
    CXPrintingPolicy policy = clang_getCursorPrintingPolicy(cursor);
    clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_TerseOutput, 1);
    clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_PolishForDeclaration, 1);
    clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_SuppressInitializers, 1);
    char *code = clang_text(clang_getCursorPrettyPrinted(cursor, policy));
    clang_PrintingPolicy_dispose(policy);
    return code;
}

static char *signature_of(session *s, CXCursor cursor)
{
    enum CXCursorKind kind = clang_getCursorKind(cursor);
    char *name = clang_text(clang_getCursorSpelling(cursor)), *signature = NULL;
    bool variable = kind == CXCursor_FieldDecl || kind == CXCursor_VarDecl || kind == CXCursor_ParmDecl;
    CXCursor definition = definition_of(cursor);
    if (variable) {
        char *type = clang_text(clang_getTypeSpelling(clang_getCursorType(cursor)));
        hide_tags(type);
        char *plain = without_underscores(type);
        signature = declared_as(plain, name);
        free(plain);
        free(type);
    } else if (kind == CXCursor_EnumConstantDecl) {
        signature = format_text("%s = %lld", name, clang_getEnumConstantDeclValue(cursor));
    } else if (!clang_Cursor_isNull(definition)) {
        char *body = written(s, definition);
        bool secret = kind == CXCursor_TypedefDecl && body && strstr(body, "struct _") == body; /* FILE */
        if (secret) signature = NULL;
        else if (body && kind == CXCursor_TypedefDecl) signature = format_text("typedef %s %s", body, name);
        else signature = body ? copy_of(body) : NULL;
        free(body);
    }
    if (!signature) {
        char *code = printed(cursor);
        signature = without_underscores(code);
        free(code);
    }
    free(name);
    return signature;
}

/* Kinds of declarations whose comment may stand beside them. */
static bool is_small(enum CXCursorKind kind)
{
    return kind == CXCursor_FieldDecl || kind == CXCursor_EnumConstantDecl || kind == CXCursor_VarDecl ||
           kind == CXCursor_ParmDecl;
}

/* Where a declaration stands, as its author knows it. */
typedef struct standing {
    char *file, *source; /* source: NULL when it is not at hand */
    unsigned line, column;
    bool here, cell, system;
} standing;

static standing standing_of(const inquiry *ask, CXCursor cursor)
{
    standing at = {0};
    CXString file;
    CXSourceLocation location = clang_getCursorLocation(cursor);
    clang_getPresumedLocation(location, &file, &at.line, &at.column);
    if (!is_small(clang_getCursorKind(cursor))) /* a typedef's name stands behind its struct */
        clang_getPresumedLocation(clang_getRangeStart(clang_getCursorExtent(cursor)), NULL, &at.line, NULL);
    at.file = clang_text(file);
    at.here = !strcmp(at.file, "In[0]");
    at.cell = !strncmp(at.file, "In[", 3);
    at.system = clang_Location_isInSystemHeader(location);
    at.source = at.here ? copy_of(ask->cell ? ask->cell : "") : source_line_of(ask->s, at.file, 0);
    return at;
}

/* Beside a member, a constant or a variable; else above. Of a system header, the first paragraph. */
static char *comment_of(const standing *at, enum CXCursorKind kind, bool definition)
{
    if (!at->source) return NULL;
    bool prototype = kind == CXCursor_FunctionDecl && !definition;
    char *raw = prototype || is_small(kind)
                    ? comment_beside(at->source, at->line, at->column, kind == CXCursor_ParmDecl)
                    : copy_of("");
    if (!*raw && kind != CXCursor_ParmDecl) {
        free(raw);
        raw = comment_above(at->source, at->line);
    }
    char *plain = plain_comment(raw), *paragraph = at->system ? strstr(plain, "\n\n") : NULL;
    if (paragraph) *paragraph = 0;
    free(raw);
    return plain;
}

/* "struct node", "enum color": the type that the cursor is a part of. */
static char *owner_of(CXCursor cursor)
{
    enum CXCursorKind kind = clang_getCursorKind(cursor);
    if (kind != CXCursor_FieldDecl && kind != CXCursor_EnumConstantDecl) return NULL;
    char *type = clang_text(clang_getTypeSpelling(clang_getCursorType(clang_getCursorSemanticParent(cursor))));
    hide_tags(type);
    return type;
}

static void add_size(text *facts, CXType type)
{
    long long size = clang_Type_getSizeOf(type);
    if (size > 0) text_addf(facts, "size: %lld byte%s\n", size, size == 1 ? "" : "s");
}

static void add_facts(const inquiry *ask, CXCursor cursor, const char *name, const standing *at, page *p)
{
    enum CXCursorKind kind = clang_getCursorKind(cursor);
    char *owner = owner_of(cursor);
    size_t size = owner ? strlen(owner) : 0;
    bool option = size > 5 && !strncmp(owner, "struct kolo_", 12) && !strcmp(owner + size - 5, "_args");
    if (option)
        text_addf(&p->facts, "option of %.*s()\n", (int)(size - 5 - strlen("struct ")), owner + strlen("struct "));
    else if (owner) text_addf(&p->facts, "%s of %s\n", kind == CXCursor_FieldDecl ? "member" : "constant", owner);
    free(owner);
    if (kind == CXCursor_ParmDecl) text_add(&p->facts, "parameter\n");
    bool sized = kind != CXCursor_FunctionDecl && kind != CXCursor_EnumConstantDecl;
    if (sized) add_size(&p->facts, clang_getCursorType(cursor));
    if (at->here) {
        text_addf(&p->facts, "line %u of this cell\n", at->line);
    } else if (at->cell) {
        if (at->line > 1) text_addf(&p->facts, "defined in %s, line %u\n", at->file, at->line);
        else text_addf(&p->facts, "defined in %s\n", at->file);
    } else {
        const char *header = standard_declaring(&ask->s->analyser, name);
        if (header) text_addf(&p->facts, "#include <%s>\n", header);
    }
}

/* Is it a function without a declaration? clang takes it for declared where it is used. */
static bool is_implied(CXCursor cursor)
{
    unsigned begin = 0, name = 0;
    clang_getFileLocation(clang_getRangeStart(clang_getCursorExtent(cursor)), NULL, NULL, NULL, &begin);
    clang_getFileLocation(clang_getCursorLocation(cursor), NULL, NULL, NULL, &name);
    return clang_getCursorKind(cursor) == CXCursor_FunctionDecl && !clang_isCursorDefinition(cursor) && begin == name;
}

char *describe_cursor(const inquiry *ask, CXCursor cursor)
{
    enum CXCursorKind kind = clang_getCursorKind(cursor);
    if (clang_Cursor_isNull(cursor) || !clang_isDeclaration(kind) || is_implied(cursor)) return NULL;
    standing at = standing_of(ask, cursor);
    char *name = clang_text(clang_getCursorSpelling(cursor));
    page p = {.signature = signature_of(ask->s, cursor),
              .comment = comment_of(&at, kind, clang_isCursorDefinition(cursor))};
    add_facts(ask, cursor, name, &at, &p);
    if (at.here && ask->detail && kind == CXCursor_FunctionDecl) {
        char *body = written(ask->s, cursor);
        text_add(&p.rest, body ? body : "");
        free(body);
    }
    char *values = kind == CXCursor_EnumConstantDecl ? written(ask->s, clang_getCursorSemanticParent(cursor)) : NULL;
    if (values) text_add(&p.rest, values);
    free(values);
    char *manual = at.system && kind == CXCursor_FunctionDecl ? manual_page(ask->s, name, ask->detail > 0) : NULL;
    if (manual) text_add(&p.rest, manual);
    free(manual);
    free(at.file);
    free(at.source);
    free(name);
    return page_text(&p);
}
