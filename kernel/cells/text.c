#define _GNU_SOURCE
#include "cells/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *need(void *memory)
{
    if (!memory) {
        fputs("kolo-kernel: out of memory\n", stderr);
        _exit(1);
    }
    return memory;
}

void *need_zeroed(size_t size)
{
    return need(calloc(1, size ? size : 1));
}

void *need_grown(void *memory, size_t count, size_t *capacity, size_t item)
{
    if (count < *capacity) return memory;
    *capacity = *capacity ? *capacity * 2 : 16;
    return need(reallocarray(memory, *capacity, item));
}

char *copy_of_bytes(const char *bytes, size_t size)
{
    char *copy = need(malloc(size + 1));
    if (size) memcpy(copy, bytes, size);
    copy[size] = 0;
    return copy;
}

char *copy_of(const char *string)
{
    return copy_of_bytes(string, strlen(string));
}

char *format_text(const char *format, ...)
{
    va_list arguments;
    char *result = NULL;
    va_start(arguments, format);
    int size = vasprintf(&result, format, arguments);
    va_end(arguments);
    return need(size < 0 ? NULL : result);
}

void text_add_bytes(text *into, const char *bytes, size_t size)
{
    if (into->size + size + 1 > into->capacity) {
        into->capacity = (into->size + size + 1) * 2;
        into->data = need(realloc(into->data, into->capacity));
    }
    if (size) memcpy(into->data + into->size, bytes, size);
    into->size += size;
    into->data[into->size] = 0;
}

void text_add(text *into, const char *string)
{
    text_add_bytes(into, string, strlen(string));
}

void text_addf(text *into, const char *format, ...)
{
    va_list arguments;
    char *added = NULL;
    va_start(arguments, format);
    int size = vasprintf(&added, format, arguments);
    va_end(arguments);
    need(size < 0 ? NULL : added);
    text_add_bytes(into, added, (size_t)size);
    free(added);
}

void text_clear(text *t)
{
    t->size = 0;
    if (t->data) t->data[0] = 0;
}

void text_free(text *t)
{
    free(t->data);
    *t = (text){0};
}

char *text_take(text *t)
{
    char *data = t->data ? t->data : copy_of("");
    *t = (text){0};
    return data;
}

bool read_bytes(const char *path, text *into)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    char block[16384];
    size_t got, before = into->size;
    do {
        got = fread(block, 1, sizeof block, file);
        text_add_bytes(into, block, got);
    } while (got == sizeof block);
    bool failed = ferror(file);
    fclose(file);
    if (failed) into->data[into->size = before] = 0;
    return !failed;
}

char *read_whole_file(const char *path)
{
    text whole = {0};
    if (read_bytes(path, &whole)) return text_take(&whole);
    text_free(&whole);
    return NULL;
}

bool write_whole_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "we");
    if (!file) return false;
    bool written = fwrite(bytes, 1, size, file) == size;
    return fclose(file) == 0 && written;
}

bool word_among(const char *words, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ') {
        if (strcspn(at, " ") == size && !strncmp(at, word, size)) return true;
    }
    return false;
}

void blank_out(char *string, size_t begin, size_t end)
{
    for (; begin < end && string[begin]; begin++) {
        if (string[begin] != '\n') string[begin] = ' ';
    }
}

size_t line_start(const char *string, size_t at)
{
    while (at > 0 && string[at - 1] != '\n') at--;
    return at;
}

unsigned line_number(const char *string, size_t at)
{
    unsigned line = 1;
    for (size_t i = 0; i < at; i++) line += string[i] == '\n';
    return line;
}

void names_add(names *list, const char *string)
{
    names_add_bytes(list, string, strlen(string));
}

void names_add_bytes(names *list, const char *bytes, size_t size)
{
    list->items = need_grown(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = copy_of_bytes(bytes, size);
}

void names_add_all(names *list, const names *more)
{
    for (size_t i = 0; i < more->count; i++) names_add(list, more->items[i]);
}

void names_add_words(names *list, const char *const *words)
{
    for (; *words; words++) names_add(list, *words);
}

char **names_arguments(names *list)
{
    list->items = need_grown(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count] = NULL;
    return list->items;
}

bool names_have(const names *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!strcmp(list->items[i], name)) return true;
    }
    return false;
}

void names_remove(names *list, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) free(list->items[i]);
    list->count -= count;
    memmove(&list->items[first], &list->items[first + count], (list->count - first) * sizeof *list->items);
}

void names_free(names *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
    *list = (names){0};
}
