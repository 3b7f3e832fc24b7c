#define _GNU_SOURCE
#include "values/value_writer.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 80 }; /* characters, beyond which a value of several parts gets several lines */

/* One name less: `T` for a typedef of T. Invalid when it has no such name. */
static CXType behind_name(CXType type)
{
    if (type.kind == CXType_Elaborated) return clang_Type_getNamedType(type);
    if (type.kind == CXType_Attributed) return clang_Type_getModifiedType(type);
    if (type.kind == CXType_Typedef) return clang_getTypedefDeclUnderlyingType(clang_getTypeDeclaration(type));
    return (CXType){.kind = CXType_Invalid};
}

CXType plain_type(CXType type)
{
    CXType plain = clang_getCanonicalType(type);
    if (plain.kind == CXType_Atomic) plain = clang_getCanonicalType(clang_Type_getValueType(plain));
    return clang_getUnqualifiedType(plain);
}

bool type_is_called(CXType type, const char *name)
{
    for (int i = 0; i < 32 && type.kind != CXType_Invalid; i++, type = behind_name(type)) {
        if (type.kind != CXType_Typedef) continue;
        char *found = clang_text(clang_getTypedefName(type));
        bool same = !strcmp(found, name);
        free(found);
        if (same) return true;
    }
    return false;
}

CXType element_type(CXType array)
{
    for (CXType at = array; at.kind != CXType_Invalid; at = behind_name(at)) {
        CXType element = clang_getArrayElementType(at);
        if (element.kind != CXType_Invalid) return element;
    }
    return clang_getArrayElementType(plain_type(array));
}

static bool is_array(CXType plain)
{
    return plain.kind == CXType_ConstantArray || plain.kind == CXType_IncompleteArray ||
           plain.kind == CXType_VariableArray;
}

static bool is_vector(CXType plain)
{
    return plain.kind == CXType_Vector || plain.kind == CXType_ExtVector;
}

static bool is_long(CXType element)
{
    CXType plain = plain_type(element);
    return plain.kind == CXType_Record || plain.kind == CXType_Pointer || is_array(plain);
}

/* `total` elements of a type, of which `available` bytes are at hand. */
static void write_elements(writer *w, CXType element, const unsigned char *bytes, size_t available, size_t total)
{
    long long size = clang_Type_getSizeOf(element);
    bool own = w->depth == 1;
    if (own) w->parts_are_long = is_long(element);
    text_add(&w->out, "{");
    for (size_t i = 0; i < total; i++) {
        bool there = size >= 0 && (i + 1) * (size_t)size <= available;
        if (i) text_add(&w->out, ", ");
        if (i && own) w->breaks[w->break_count++] = w->out.size;
        if (i == SHOWN_ELEMENTS || !there || w->out.size > LONGEST) {
            text_addf(&w->out, "… (%zu elements)", total);
            break;
        }
        write_value(w, element, bytes + i * (size_t)size, available - i * (size_t)size);
    }
    text_add(&w->out, "}");
}

static void write_array(writer *w, CXType type, CXType plain, const unsigned char *bytes, size_t available)
{
    CXType element = element_type(type);
    long long total = clang_getArraySize(plain), size = clang_Type_getSizeOf(element);
    character kind = character_of(element);
    bool counted = plain.kind == CXType_ConstantArray;
    if (plain.kind == CXType_VariableArray && size > 0 && w->depth == 1) {
        total = (long long)available / size;
        counted = true;
    }
    size_t whole = counted && total > 0 && size > 0 ? (size_t)total * (size_t)size : 0;
    if (!counted) text_add(&w->out, "{…}"); /* a flexible member: nobody knows how many there are */
    else if (kind) write_characters(w, kind, bytes, whole < available ? whole : available);
    else write_elements(w, element, bytes, available, (size_t)total);
}

static void write_scalar(writer *w, CXType type, CXType plain, const unsigned char *bytes, size_t size)
{
    character kind = character_of(type);
    if (kind) write_character(w, kind, bytes);
    else if (plain.kind == CXType_Pointer) write_pointer(w, type, plain, unsigned_of(bytes, 8));
    else if (plain.kind == CXType_Enum) write_enum(w, plain, bytes, size);
    else if (plain.kind == CXType_Complex) write_complex(w, plain, bytes, size);
    else write_number(w, plain, bytes, size);
}

void write_value(writer *w, CXType type, const unsigned char *bytes, size_t available)
{
    CXType plain = plain_type(type);
    long long size = clang_Type_getSizeOf(plain);
    bool composite = plain.kind == CXType_Record || is_array(plain);
    bool function = plain.kind == CXType_FunctionProto || plain.kind == CXType_FunctionNoProto;
    if (function) size = sizeof(void *); /* its value is a pointer to it */
    if (++w->depth > DEEPEST || w->out.size > LONGEST || (!composite && (size <= 0 || (size_t)size > available))) {
        text_add(&w->out, "…");
    } else if (plain.kind == CXType_Record) {
        write_record(w, plain, bytes, available);
    } else if (function) {
        write_function(w, type, unsigned_of(bytes, sizeof(void *)));
    } else if (is_array(plain)) {
        write_array(w, type, plain, bytes, available);
    } else if (is_vector(plain)) {
        write_elements(w, clang_getElementType(plain), bytes, available, (size_t)clang_getNumElements(plain));
    } else {
        write_scalar(w, type, plain, bytes, (size_t)size);
    }
    w->depth--;
}

/* Rows and fields get a line each where one line would be too long. */
static char *laid_out(writer *w)
{
    size_t width = 0, from = 0;
    for (size_t i = 0; i < w->out.size; i++) width += ((unsigned char)w->out.data[i] & 0xc0) != 0x80;
    if (width <= LINE || !w->parts_are_long) return text_take(&w->out);
    text lines = {0};
    for (size_t i = 0; i < w->break_count; i++) {
        size_t end = w->breaks[i] - 1; /* without the blank after the comma */
        text_add_bytes(&lines, w->out.data + from, end - from);
        text_add(&lines, "\n ");
        from = w->breaks[i];
    }
    text_add_bytes(&lines, w->out.data + from, w->out.size - from);
    text_free(&w->out);
    return text_take(&lines);
}

/* The bytes at that address, as far as they are shown; `got` is 0 when they cannot be read. */
static unsigned char *fetched(const memory *from, uint64_t address, size_t size, size_t *got)
{
    *got = size < READ_AHEAD ? size : READ_AHEAD;
    unsigned char *bytes = need_zeroed(*got + 16);
    if (*got && !from->read(from->closure, address, *got, bytes)) *got = 0;
    return bytes;
}

static json_t *bundle_of(writer *w)
{
    char *shown = laid_out(w);
    json_t *data = json_pack("{s:s}", "text/plain", shown);
    free(shown);
    return data;
}

json_t *value_bundle(const memory *from, CXType type, uint64_t address, size_t size)
{
    if (!address) return NULL;
    writer w = {.from = from};
    size_t got;
    unsigned char *bytes = fetched(from, address, size, &got);
    write_value(&w, type, bytes, got);
    free(bytes);
    return bundle_of(&w);
}

json_t *wide_string_bundle(const memory *from, char prefix, uint64_t address, size_t size)
{
    writer w = {.from = from};
    size_t got;
    unsigned char *bytes = fetched(from, address, size, &got);
    write_characters(&w, prefix == 'L' ? WIDE : prefix == 'u' ? WIDE_16 : WIDE_32, bytes, got);
    free(bytes);
    return bundle_of(&w);
}
