/* Pointers: NULL, a string, a function by its name, else the type, the address and the value there. Of memory that
 * cannot be read only the address is shown. See value_writer.h. */
#define _GNU_SOURCE
#include "values/value_writer.h"
#include "cells/split.h"

#include <stdlib.h>
#include <string.h>

/* A type as its author calls it; a struct without a name is only that. */
static char *spelling_of(CXType type)
{
    char *spelling = clang_text(clang_getTypeSpelling(type));
    if (strstr(spelling, "typeof")) {
        free(spelling);
        spelling = clang_text(clang_getTypeSpelling(clang_getCanonicalType(type)));
    }
    hide_tags(spelling);
    char *nameless = strstr(spelling, " (unnamed"), *end = nameless ? strchr(nameless, ')') : NULL;
    if (!end) nameless = strstr(spelling, " (anonymous"), end = nameless ? strchr(nameless, ')') : NULL;
    if (end) memmove(nameless, end + 1, strlen(end + 1) + 1);
    return spelling;
}

static bool is_function(CXType plain)
{
    return plain.kind == CXType_FunctionProto || plain.kind == CXType_FunctionNoProto;
}

/* Structs of the C library's own, such as FILE, whose members mean nothing to a user. */
static bool is_private(CXType plain)
{
    CXCursor declared = clang_getTypeDeclaration(plain);
    char *name = clang_text(clang_getCursorSpelling(declared));
    bool library = clang_Location_isInSystemHeader(clang_getCursorLocation(declared));
    bool found = plain.kind == CXType_Record && library && name[0] == '_';
    free(name);
    return found;
}

static void write_pointee(writer *w, CXType type, uint64_t address)
{
    CXType plain = plain_type(type);
    long long size = clang_Type_getSizeOf(plain);
    if (plain.kind == CXType_Void || size <= 0 || is_private(plain)) return;
    size_t wanted = size < READ_AHEAD ? (size_t)size : READ_AHEAD;
    unsigned char *bytes = need_zeroed(wanted + 16);
    if (w->from->read(w->from->closure, address, wanted, bytes)) {
        text_add(&w->out, " → ");
        write_value(w, type, bytes, wanted);
    }
    free(bytes);
}

void write_function(writer *w, CXType type, uint64_t address)
{
    char *name = w->from->function_at && address ? w->from->function_at(w->from->closure, address) : NULL;
    char *spelling = spelling_of(type), *open = strchr(spelling, '(');
    bool bare = open && is_function(plain_type(type)) && open[1] != '*'; /* "int (int)": a cast names a pointer to it */
    if (w->depth == 1 && bare) text_addf(&w->out, "(%.*s(*)%s) ", (int)(open - spelling), spelling, open);
    else if (w->depth == 1) text_addf(&w->out, "(%s) ", spelling);
    if (name) text_add(&w->out, name);
    else text_addf(&w->out, "0x%lx", (unsigned long)address);
    free(name);
    free(spelling);
}

void write_pointer(writer *w, CXType type, CXType plain, uint64_t address)
{
    CXType pointee = clang_getPointeeType(type);
    if (pointee.kind == CXType_Invalid) pointee = clang_getPointeeType(plain);
    character kind = character_of(pointee);
    if (!address) {
        text_add(&w->out, "NULL");
    } else if (is_function(plain_type(pointee))) {
        write_function(w, type, address);
    } else if (kind == NO_CHARACTER || !write_pointed_string(w, kind, address)) {
        char *spelling = spelling_of(type);
        if (w->depth == 1) text_addf(&w->out, "(%s) ", spelling);
        text_addf(&w->out, "0x%lx", (unsigned long)address);
        if (w->depth == 1 && kind == NO_CHARACTER) write_pointee(w, pointee, address);
        free(spelling);
    }
}
