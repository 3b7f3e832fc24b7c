/* Handles of libkolo's, which the library itself shows (show/bundle.h there). See value.h. */
#define _GNU_SOURCE
#include "cells/value_writer.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST = 32 << 20 }; /* bytes of a bundle */

const char *shower_of(CXType plain)
{
    static const char *const showers[][2] = {{"kolo_model", "kolo_model_bundle"},
                                             {"kolo_history", "kolo_history_bundle"},
                                             {"kolo_data", "kolo_data_bundle"}};
    CXType pointee = plain.kind == CXType_Pointer ? plain_type(clang_getPointeeType(plain)) : plain;
    if (plain.kind != CXType_Pointer || pointee.kind != CXType_Record) return NULL;
    char *name = clang_text(clang_getCursorSpelling(clang_getTypeDeclaration(pointee)));
    const char *found = NULL;
    for (size_t i = 0; i < sizeof showers / sizeof *showers; i++) {
        if (!strcmp(name, showers[i][0])) found = showers[i][1];
    }
    free(name);
    return found;
}

json_t *object_bundle(const memory *from, uint64_t address, size_t size)
{
    if (size > LARGEST) return NULL;
    char *json = need_zeroed(size + 1);
    bool whole = true;
    for (size_t at = 0; whole && at < size; at += READ_AHEAD) {
        size_t step = size - at < READ_AHEAD ? size - at : READ_AHEAD;
        whole = from->read(from->closure, address + at, step, json + at);
    }
    json_t *data = whole ? json_loads(json, 0, NULL) : NULL;
    free(json);
    if (json_is_string(json_object_get(data, "text/plain"))) return data;
    json_decref(data);
    return NULL;
}
