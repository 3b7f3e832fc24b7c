/* Structs field by field, unions with all their members, enums by the names of their constants. See value_writer.h. */
#define _GNU_SOURCE
#include "values/value_writer.h"

#include <stdlib.h>
#include <string.h>

/* ---- enums ---- */

typedef struct constants {
    int64_t value;  /* that is looked for */
    char *name;     /* of the constant that has it */
    uint64_t bits;  /* of all constants that are one bit */
    uint64_t other; /* of all that are not */
    unsigned count; /* of constants that are one bit */
    int64_t last;
    bool any, jumps; /* jumps: not each constant is one more than the one before */
    uint64_t rest;  /* bits of the value that are not yet named */
    text *into;
} constants;

static enum CXChildVisitResult see_constant(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    constants *c = closure;
    (void)parent;
    if (clang_getCursorKind(cursor) != CXCursor_EnumConstantDecl) return CXChildVisit_Continue;
    int64_t value = clang_getEnumConstantDeclValue(cursor);
    uint64_t bits = (uint64_t)value;
    if (value == c->value && !c->name) c->name = clang_text(clang_getCursorSpelling(cursor));
    c->jumps |= c->any && value != c->last + 1;
    c->any = true;
    c->last = value;
    if (bits & (bits - 1)) c->other |= bits;
    else if (bits && !(c->bits & bits)) c->count++, c->bits |= bits;
    return CXChildVisit_Continue;
}

static enum CXChildVisitResult add_flag(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    constants *c = closure;
    (void)parent;
    if (clang_getCursorKind(cursor) != CXCursor_EnumConstantDecl) return CXChildVisit_Continue;
    uint64_t bits = (uint64_t)clang_getEnumConstantDeclValue(cursor);
    if (!bits || bits & (bits - 1) || !(c->rest & bits)) return CXChildVisit_Continue;
    char *name = clang_text(clang_getCursorSpelling(cursor));
    text_addf(c->into, "%s%s", c->rest == (uint64_t)c->value ? "" : " | ", name);
    c->rest &= ~bits;
    free(name);
    return CXChildVisit_Continue;
}

static bool is_signed(enum CXTypeKind kind)
{
    return kind == CXType_Int || kind == CXType_Long || kind == CXType_LongLong || kind == CXType_SChar ||
           kind == CXType_Short || kind == CXType_Char_S || kind == CXType_Int128;
}

/* A value that no constant has is its flags, where the constants are flags: bits of their own, and combinations of
 * them, that do not merely count. */
void write_enum(writer *w, CXType plain, const unsigned char *bytes, size_t size)
{
    CXCursor declared = clang_getTypeDeclaration(plain);
    bool negative = is_signed(plain_type(clang_getEnumDeclIntegerType(declared)).kind);
    constants c = {.value = negative ? signed_of(bytes, size) : (int64_t)unsigned_of(bytes, size), .into = &w->out};
    clang_visitChildren(declared, see_constant, &c);
    uint64_t value = (uint64_t)c.value;
    bool flags = c.count > 1 && c.jumps && !(c.other & ~c.bits) && value && !(value & ~c.bits);
    if (c.name) {
        text_add(&w->out, c.name);
    } else if (flags) {
        c.rest = value;
        clang_visitChildren(declared, add_flag, &c);
    } else {
        text_addf(&w->out, "%ld", (long)c.value);
    }
    free(c.name);
}

/* ---- structs and unions ---- */

typedef struct record {
    writer *w;
    const unsigned char *bytes;
    size_t available;
    bool any;
    bool own; /* the value itself, not a part of it: its fields may get a line each */
} record;

static void write_bits(record *r, CXCursor field, size_t offset)
{
    unsigned width = (unsigned)clang_getFieldDeclBitWidth(field);
    CXType type = clang_getCursorType(field), plain = plain_type(type);
    unsigned char value[16] = {0};
    bool fits = width <= 128 && (offset + width + 7) / 8 <= r->available;
    for (unsigned i = 0; fits && i < width; i++) {
        size_t at = offset + i;
        value[i / 8] |= (unsigned char)((r->bytes[at / 8] >> (at % 8) & 1) << (i % 8));
    }
    if (plain.kind == CXType_Enum) plain = plain_type(clang_getEnumDeclIntegerType(clang_getTypeDeclaration(plain)));
    bool negative = fits && is_signed(plain.kind) && width && (value[(width - 1) / 8] >> ((width - 1) % 8) & 1);
    for (unsigned i = width; negative && i < 128; i++) value[i / 8] |= (unsigned char)(1 << (i % 8));
    if (fits) write_value(r->w, type, value, sizeof value);
    else text_add(&r->w->out, "…");
}

/* The members of a struct or union without a name are members of the one around it. */
static bool is_nameless(CXCursor field)
{
    CXType plain = plain_type(clang_getCursorType(field));
    char *name = clang_text(clang_getCursorSpelling(field));
    bool none_given = !*name || strchr(name, '(');
    free(name);
    return none_given && plain.kind == CXType_Record;
}

static enum CXVisitorResult write_field(CXCursor field, CXClientData closure)
{
    record *r = closure;
    writer *w = r->w;
    long long offset = clang_Cursor_getOffsetOfField(field);
    size_t at = offset < 0 ? r->available : (size_t)offset / 8;
    CXType type = clang_getCursorType(field);
    if (plain_type(type).kind == CXType_IncompleteArray) return CXVisit_Continue; /* how much it holds is not known */
    if (is_nameless(field)) {
        record inner = {w, r->bytes + (at < r->available ? at : 0), at < r->available ? r->available - at : 0, r->any,
                        r->own};
        clang_Type_visitFields(plain_type(type), write_field, &inner);
        r->any = inner.any;
        return CXVisit_Continue;
    }
    char *name = clang_text(clang_getCursorSpelling(field));
    if (!*name) { /* `int : 3` is room, and no member */
        free(name);
        return CXVisit_Continue;
    }
    if (r->any) text_add(&w->out, ", ");
    if (r->any && r->own && w->break_count < sizeof w->breaks / sizeof *w->breaks)
        w->breaks[w->break_count++] = w->out.size;
    text_addf(&w->out, ".%s = ", name);
    r->any = true;
    if (clang_Cursor_isBitField(field)) write_bits(r, field, offset < 0 ? r->available * 8 : (size_t)offset);
    else write_value(w, type, r->bytes + (at < r->available ? at : 0), at < r->available ? r->available - at : 0);
    free(name);
    return w->out.size > LONGEST ? CXVisit_Break : CXVisit_Continue;
}

void write_record(writer *w, CXType plain, const unsigned char *bytes, size_t available)
{
    record r = {.w = w, .bytes = bytes, .available = available, .own = w->depth == 1};
    text_add(&w->out, "{");
    clang_Type_visitFields(plain, write_field, &r);
    text_add(&w->out, w->out.size > LONGEST ? ", …}" : "}");
    if (w->depth == 1) w->parts_are_long = true;
}
