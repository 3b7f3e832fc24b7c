/* %layout: where the members of a struct lie, and how much of it is padding. See magics.h. */
#include "help/help.h"
#include "help/help_page.h"
#include "magics/magics.h"
#include "print.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

static const char wanted[] = "kolo_layout"; /* the name by which the type is found in the unit */

typedef struct layout {
    text *out;
    bool is_union;
    long long end, padding; /* bits: the end of the last member; between the members so far */
} layout;

static void add_row(layout *l, long long begin, long long bits, const char *what)
{
    char *place = begin % 8 ? format_text("%lld.%lld", begin / 8, begin % 8) : format_text("%lld", begin / 8);
    char *size = bits % 8 ? format_text("%lld bit%s", bits, bits == 1 ? "" : "s") : format_text("%lld", bits / 8);
    text_addf(l->out, "%8s %8s  %s\n", place, size, what);
    free(place);
    free(size);
}

static void add_padding(layout *l, long long begin)
{
    if (begin <= l->end) return;
    add_row(l, l->end, begin - l->end, "(padding)");
    l->padding += begin - l->end;
}

/* "double grid[2][3]", "unsigned flag : 3"; a struct without a name is "struct { … }". The caller frees. */
static char *member_text(CXCursor field, CXType type)
{
    char *name = clang_text(clang_getCursorSpelling(field)), *spelling = clang_text(clang_getTypeSpelling(type));
    char *unnamed = strstr(spelling, " at "), *after = unnamed ? strchr(unnamed, ')') : NULL;
    if (after) {
        char *plain = format_text("%.*s { … }%s", (int)strcspn(spelling, " "), spelling, after + 1);
        free(spelling);
        spelling = plain;
    }
    char *shown = strchr(name, '(') || !*name ? copy_of(spelling) : declared_as(spelling, name);
    if (clang_Cursor_isBitField(field)) {
        char *with_width = format_text("%s : %d", shown, clang_getFieldDeclBitWidth(field));
        free(shown);
        shown = with_width;
    }
    free(name);
    free(spelling);
    return shown;
}

static enum CXVisitorResult add_member(CXCursor field, CXClientData closure)
{
    layout *l = closure;
    CXType type = clang_getCursorType(field);
    long long begin = clang_Cursor_getOffsetOfField(field), bytes = clang_Type_getSizeOf(type);
    bool bit_field = clang_Cursor_isBitField(field);
    long long bits = bit_field ? clang_getFieldDeclBitWidth(field) : bytes > 0 ? bytes * 8 : 0; /* `[]` has none */
    char *shown = member_text(field, type);
    if (!l->is_union) add_padding(l, begin);
    add_row(l, begin, bits, shown);
    if (begin + bits > l->end) l->end = begin + bits;
    free(shown);
    return CXVisit_Continue;
}

static void add_members(CXType record, text *out)
{
    layout l = {.out = out, .is_union = clang_getCursorKind(clang_getTypeDeclaration(record)) == CXCursor_UnionDecl};
    text_addf(out, "\n%8s %8s  %s\n", "offset", "size", "member");
    clang_Type_visitFields(record, add_member, &l);
    add_padding(&l, clang_Type_getSizeOf(record) * 8);
    if (l.padding) text_addf(out, "padding: %lld byte%s", l.padding / 8, l.padding / 8 == 1 ? "" : "s");
    if (l.padding % 8) text_addf(out, " and %lld bit%s", l.padding % 8, l.padding % 8 == 1 ? "" : "s");
    text_add(out, l.padding ? "\n" : "");
}

/* The type of what the words name, as a cell would see it now. Invalid: there is none, or `r` is the error. */
static CXType type_of(session *s, const char *words, const char *cell_name, result *r)
{
    char *use = format_text("typedef __typeof__(%s) %s;", words, wanted);
    parsed_cell d = parsed_cell_of(use, "In[0]", 0, s->prefix, s->symbols);
    unit u = unit_of(&d, s->symbols, VALUE_NONE, NULL);
    bool good = readable(s, &u.source, cell_name, r) && analyser_parse(&s->analyser, u.source.data, u.source.size) &&
                !analyser_has_errors(&s->analyser);
    CXCursor named = good ? cursor_named(s, wanted) : clang_getNullCursor();
    good = good && !clang_Cursor_isNull(named);
    text_free(&u.source);
    parsed_cell_free(&d);
    free(use);
    return good ? clang_getCanonicalType(clang_getCursorType(named)) : (CXType){.kind = CXType_Invalid};
}

static result show_layout(session *s, const char *words, const char *cell_name)
{
    result r = {0};
    CXType type = type_of(s, words, cell_name, &r);
    if (r.failed) return r;
    long long size = type.kind == CXType_Invalid ? -1 : clang_Type_getSizeOf(type);
    if (type.kind == CXType_Invalid)
        return error_result("UsageError", "%%layout: '%s' is neither a type nor a variable that is declared here",
                            words);
    if (size < 0) return error_result("UsageError", "%%layout: the size of '%s' is not known", words);
    text out = {0};
    text_addf(&out, "%s: %lld byte%s, aligned to %lld\n", words, size, size == 1 ? "" : "s",
              clang_Type_getAlignOf(type));
    bool array = type.kind == CXType_ConstantArray;
    while (type.kind == CXType_ConstantArray) type = clang_getCanonicalType(clang_getArrayElementType(type));
    if (array) text_addf(&out, "each element: %lld bytes\n", clang_Type_getSizeOf(type));
    if (type.kind == CXType_Record) add_members(type, &out);
    print_out(s, out.data);
    text_free(&out);
    return r;
}

result magic_layout(session *s, const char *words, const char *name)
{
    if (!*words) return usage_result(s, "layout", false);
    help_begins(s);
    result r = show_layout(s, words, name);
    help_ends(s);
    return r;
}
