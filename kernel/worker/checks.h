/* Words of one line about a fault, beside its frames; they begin with a mark. The worker sends them to the kernel. Read
 * first: protocol.h. */
#ifndef KERNEL_WORKER_CHECKS_H
#define KERNEL_WORKER_CHECKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* "index|type|file|line|column": an index that is outside of its array, as clang's check sees it. */
#define MARK_INDEX '\001'
/* "sentence|offset|object": the sentence is about a call at that place of a cell's object. MARK_PLACE stands in it
 * where the place is to be named. */
#define MARK_CALL  '\002'
#define MARK_PLACE "\003"

/* Said of a cell and of a program alike. */
#define WORDS_UNREACHABLE "__builtin_unreachable() was reached, or a function declared noreturn has returned"
#define WORDS_SMASHED     "this function has written beyond the end of one of its arrays, over its own stack frame"

/* The argument that clang passes to __ubsan_handle_out_of_bounds_abort. */
typedef struct checked_type {
    uint16_t kind, info; /* of an integer: kind 0; info: 1 for a signed one, and twice the logarithm of its bits */
    char name[]; /* "'int[5]'" */
} checked_type;

typedef struct checked_index {
    const char *file;
    uint32_t line, column;
    const checked_type *array, *index;
} checked_index;

static inline void describe_index(char *into, size_t size, const checked_index *check, uintptr_t index)
{
    unsigned bits = 1u << (check->index->info >> 1), above = bits < 64 ? 64 - bits : 0;
    long long value = check->index->info & 1 ? (long long)((uint64_t)index << above) >> above : (long long)index;
    snprintf(into, size, "%c%lld|%s|%s|%u|%u", MARK_INDEX, value, check->array->name, check->file, check->line,
             check->column);
}

#endif
