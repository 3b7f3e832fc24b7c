/* The value of a trailing expression, written as C would write it: 42, 'a', "text", RED, {1, 2, 3}, {.x = 1, .y = 2}.
 * The type comes from libclang, the bytes from a process's memory. Read first: analyser.h. */
#ifndef KERNEL_VALUES_VALUE_H
#define KERNEL_VALUES_VALUE_H

#include "cells/analyser.h"

#include <jansson.h>

/* The memory that values are read from, of whatever process. */
typedef struct memory {
    /* Copies `size` bytes at `address`. False when they cannot be read: a bad address must not fault. */
    bool (*read)(void *closure, uint64_t address, size_t size, void *into);
    /* The name of the function at `address`, which the caller frees, or NULL. The member may be NULL. */
    char *(*function_at)(void *closure, uint64_t address);
    void *closure;
} memory;

/* The MIME bundle of the value of this type at `address`, `size` bytes; NULL when it has none to show. */
json_t *value_bundle(const memory *from, CXType type, uint64_t address, size_t size);

/* The function of libkolo's that shows what a pointer of this type points to, or a struct of this type (`by_value`);
 * NULL for any other type. */
const char *shower_of(CXType plain, bool *by_value);
/* The bundle that such a function has made: JSON text of `size` bytes. */
json_t *object_bundle(const memory *from, uint64_t address, size_t size);

/* The format by which printf writes such a value much as value_bundle does; NULL where none does, and
 * "true or false" for a truth value. */
const char *printf_of(CXType type);

/* value_bundle for a wide string literal, by its prefix: L, u or U. */
json_t *wide_string_bundle(const memory *from, char prefix, uint64_t address, size_t size);

#endif
