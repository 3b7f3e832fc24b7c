#define _GNU_SOURCE
#include "cells/value.h"

#include <ctype.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ELEMENTS = 100, SHOWN_CHARACTERS = 2000, DEEPEST = 6, LONGEST = 20000, READ_AHEAD = 100000 };

typedef struct writer {
    const memory *from;
    text out;
    int depth;
} writer;

static void write_value(writer *w, CXType type, const unsigned char *bytes, size_t available);

static uint64_t unsigned_of(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, bytes, size < 8 ? size : 8);
    return value;
}

static int64_t signed_of(const unsigned char *bytes, size_t size)
{
    unsigned shift = size < 8 ? (unsigned)(64 - 8 * size) : 0;
    return (int64_t)(unsigned_of(bytes, size) << shift) >> shift;
}

static bool reads_back(const char *digits, long double value, enum CXTypeKind kind)
{
    if (kind == CXType_Float) return strtof(digits, NULL) == (float)value;
    return kind == CXType_Double ? strtod(digits, NULL) == (double)value : strtold(digits, NULL) == value;
}

/* The fewest digits that read back as the same number: in plain notation from 1e-5 up to 1e16, else with an exponent.
 */
static void write_real(writer *w, long double value, enum CXTypeKind kind)
{
    char found[64], digits[64];
    for (int precision = 0; precision < DECIMAL_DIG; precision++) {
        snprintf(found, sizeof found, "%.*Le", precision, value);
        if (reads_back(found, value, kind)) break;
    }
    char *mark = strchr(found, 'e');
    int exponent = mark ? atoi(mark + 1) : 0, count = 0;
    if (!mark || exponent < -5 || exponent >= 16) {
        text_add(&w->out, found);
        return;
    }
    for (const char *p = found; p < mark; p++) {
        if (isdigit((unsigned char)*p)) digits[count++] = *p;
    }
    if (found[0] == '-') text_add(&w->out, "-");
    for (int place = exponent < 0 ? 0 : exponent; place >= -1 || exponent - place < count; place--) {
        int at = exponent - place;
        if (place == -1) text_add(&w->out, ".");
        text_add_bytes(&w->out, at >= 0 && at < count ? &digits[at] : "0", 1);
    }
}

static void write_escaped(writer *w, unsigned char c, char quote)
{
    static const char named[] = "\n\t\r\a\b\f\v\\", letters[] = "ntrabfv\\";
    const char *found = c ? strchr(named, c) : NULL;
    if (found) text_addf(&w->out, "\\%c", letters[found - named]);
    else if (c == (unsigned char)quote) text_addf(&w->out, "\\%c", c);
    else if (c < 32 || c == 127) text_addf(&w->out, c ? "\\x%02x" : "\\0", c);
    else text_add_bytes(&w->out, (const char *)&c, 1);
}

static void write_string(writer *w, const unsigned char *bytes, size_t size, bool cut)
{
    text_add(&w->out, "\"");
    for (size_t i = 0; i < size; i++) write_escaped(w, bytes[i], '"');
    text_add(&w->out, cut ? "…\"" : "\"");
}

/* A string behind a pointer, read in steps: a bad address costs a refusal, not a fault. */
static bool write_pointed_string(writer *w, uint64_t address)
{
    unsigned char found[SHOWN_CHARACTERS + 1];
    size_t size = 0;
    while (size < SHOWN_CHARACTERS) {
        size_t step = 256 - (address + size) % 256;
        unsigned char block[256];
        if (!w->from->read(w->from->closure, address + size, step, block)) break;
        for (size_t i = 0; i < step && size < SHOWN_CHARACTERS; i++) {
            found[size] = block[i];
            if (!found[size++]) {
                write_string(w, found, size - 1, false);
                return true;
            }
        }
    }
    if (size) write_string(w, found, size, true);
    return size > 0;
}

static bool is_char(CXType type)
{
    enum CXTypeKind kind = clang_getCanonicalType(type).kind;
    return kind == CXType_Char_S || kind == CXType_Char_U;
}

static void write_pointer(writer *w, CXType type, uint64_t address)
{
    CXType pointee = clang_getPointeeType(clang_getCanonicalType(type));
    if (!address) {
        text_add(&w->out, "NULL");
    } else if (!is_char(pointee) || !write_pointed_string(w, address)) {
        char *spelling = clang_text(clang_getTypeSpelling(type));
        if (strstr(spelling, "typeof")) {
            free(spelling);
            spelling = clang_text(clang_getTypeSpelling(clang_getCanonicalType(type)));
        }
        if (w->depth > 1) text_addf(&w->out, "0x%lx", (unsigned long)address);
        else text_addf(&w->out, "(%s) 0x%lx", spelling, (unsigned long)address);
        free(spelling);
    }
}

typedef struct enum_search {
    int64_t value;
    char *name;
} enum_search;

static enum CXChildVisitResult match_constant(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    enum_search *search = closure;
    (void)parent;
    if (clang_getCursorKind(cursor) != CXCursor_EnumConstantDecl ||
        clang_getEnumConstantDeclValue(cursor) != search->value)
        return CXChildVisit_Continue;
    search->name = clang_text(clang_getCursorSpelling(cursor));
    return CXChildVisit_Break;
}

static void write_enum(writer *w, CXType type, const unsigned char *bytes, size_t size)
{
    CXCursor declared = clang_getTypeDeclaration(type);
    enum CXTypeKind base = clang_getCanonicalType(clang_getEnumDeclIntegerType(declared)).kind;
    bool is_signed = base == CXType_Int || base == CXType_Long || base == CXType_SChar || base == CXType_Short;
    enum_search search = {.value = is_signed ? signed_of(bytes, size) : (int64_t)unsigned_of(bytes, size)};
    clang_visitChildren(declared, match_constant, &search);
    if (search.name) text_add(&w->out, search.name);
    else text_addf(&w->out, "%ld", (long)search.value);
    free(search.name);
}

typedef struct record {
    writer *w;
    const unsigned char *bytes;
    size_t available;
    bool any;
} record;

static void write_bits(writer *w, CXCursor field, const unsigned char *bytes, size_t available, size_t offset)
{
    unsigned width = (unsigned)clang_getFieldDeclBitWidth(field);
    uint64_t value = 0;
    for (unsigned i = 0; i < width && (offset + i) / 8 < available; i++) {
        value |= (uint64_t)((bytes[(offset + i) / 8] >> ((offset + i) % 8)) & 1) << i;
    }
    enum CXTypeKind kind = clang_getCanonicalType(clang_getCursorType(field)).kind;
    bool negative =
        (kind == CXType_Int || kind == CXType_Long || kind == CXType_Short) && width && (value >> (width - 1) & 1);
    if (negative && width < 64) value |= ~(uint64_t)0 << width;
    text_addf(&w->out, "%ld", (long)value);
}

static enum CXVisitorResult write_field(CXCursor field, CXClientData closure)
{
    record *r = closure;
    long long offset = clang_Cursor_getOffsetOfField(field);
    char *name = clang_text(clang_getCursorSpelling(field));
    text_addf(&r->w->out, "%s%s%s%s", r->any ? ", " : "", *name ? "." : "", name, *name ? " = " : "");
    r->any = true;
    if (offset < 0 || (size_t)offset / 8 >= r->available) text_add(&r->w->out, "…");
    else if (clang_Cursor_isBitField(field)) write_bits(r->w, field, r->bytes, r->available, (size_t)offset);
    else write_value(r->w, clang_getCursorType(field), r->bytes + offset / 8, r->available - (size_t)offset / 8);
    free(name);
    return r->w->out.size > LONGEST ? CXVisit_Break : CXVisit_Continue;
}

static void write_array(writer *w, CXType type, const unsigned char *bytes, size_t available)
{
    CXType element = clang_getArrayElementType(type);
    long long total = clang_getArraySize(type), size = clang_Type_getSizeOf(element);
    if (is_char(element)) {
        size_t limit = total > 0 && (size_t)total < available ? (size_t)total : available;
        size_t length = strnlen((const char *)bytes, limit < SHOWN_CHARACTERS ? limit : SHOWN_CHARACTERS);
        write_string(w, bytes, length, length == SHOWN_CHARACTERS && limit > length);
        return;
    }
    text_add(&w->out, "{");
    for (long long i = 0; i < total; i++) {
        bool there = size > 0 && (size_t)((i + 1) * size) <= available;
        if (i == SHOWN_ELEMENTS || !there || w->out.size > LONGEST) {
            text_addf(&w->out, ", … (%lld elements)", total);
            break;
        }
        if (i) text_add(&w->out, ", ");
        write_value(w, element, bytes + i * size, available - (size_t)(i * size));
    }
    text_add(&w->out, "}");
}

static void write_number(writer *w, enum CXTypeKind kind, const unsigned char *bytes, size_t size)
{
    float single;
    double real;
    long double wide;
    switch (kind) {
    case CXType_Bool: text_add(&w->out, bytes[0] ? "true" : "false"); break;
    case CXType_Char_S:
    case CXType_Char_U:
        text_add(&w->out, "'");
        if (bytes[0] < 128) write_escaped(w, bytes[0], '\'');
        else text_addf(&w->out, "\\x%02x", bytes[0]);
        text_add(&w->out, "'");
        break;
    case CXType_UChar:
    case CXType_UShort:
    case CXType_UInt:
    case CXType_ULong:
    case CXType_ULongLong: text_addf(&w->out, "%lu", (unsigned long)unsigned_of(bytes, size)); break;
    case CXType_Float:
        memcpy(&single, bytes, sizeof single);
        write_real(w, (long double)single, kind);
        break;
    case CXType_Double:
        memcpy(&real, bytes, sizeof real);
        write_real(w, (long double)real, kind);
        break;
    case CXType_LongDouble:
        memcpy(&wide, bytes, sizeof wide);
        write_real(w, wide, kind);
        break;
    default: text_addf(&w->out, "%ld", (long)signed_of(bytes, size)); break;
    }
}

static void write_value(writer *w, CXType type, const unsigned char *bytes, size_t available)
{
    CXType plain = clang_getCanonicalType(type);
    long long size = clang_Type_getSizeOf(plain);
    if (size < 0) size = 0;
    bool composite = plain.kind == CXType_Record || plain.kind == CXType_ConstantArray;
    if (++w->depth > DEEPEST || (!composite && (size_t)size > available)) {
        text_add(&w->out, "…");
    } else if (plain.kind == CXType_Pointer) {
        write_pointer(w, type, unsigned_of(bytes, 8));
    } else if (plain.kind == CXType_Enum) {
        write_enum(w, plain, bytes, (size_t)size);
    } else if (plain.kind == CXType_Record) {
        record r = {w, bytes, available, false};
        text_add(&w->out, "{");
        clang_Type_visitFields(plain, write_field, &r);
        text_add(&w->out, "}");
    } else if (plain.kind == CXType_ConstantArray) {
        write_array(w, plain, bytes, available);
    } else if (plain.kind == CXType_Complex) {
        CXType part = clang_getElementType(plain);
        size_t half = (size_t)size / 2;
        write_number(w, part.kind, bytes, half);
        text_add(&w->out, " + ");
        write_number(w, part.kind, bytes + half, half);
        text_add(&w->out, "i");
    } else {
        write_number(w, plain.kind, bytes, (size_t)size);
    }
    w->depth--;
}

json_t *value_bundle(const memory *from, CXType type, uint64_t address, size_t size)
{
    if (!address) return NULL;
    size_t wanted = size < READ_AHEAD ? size : READ_AHEAD;
    unsigned char *bytes = need_zeroed(wanted + 8);
    if (!from->read(from->closure, address, wanted, bytes)) {
        free(bytes);
        return NULL;
    }
    writer w = {.from = from};
    write_value(&w, type, bytes, wanted);
    free(bytes);
    json_t *data = json_pack("{s:s%}", "text/plain", w.out.data, w.out.size);
    if (!data) data = json_pack("{s:s}", "text/plain", "(text that is not UTF-8)");
    text_free(&w.out);
    return data;
}
