/* Growing text, and what the kernel does with files. Read first: nothing.
 * Out of memory in the kernel process is not survivable in any useful way: these end the process with one sentence. */
#ifndef KERNEL_CELLS_TEXT_H
#define KERNEL_CELLS_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct text {
    char *data; /* always NUL-terminated once anything was added; NULL before */
    size_t size, capacity;
} text;

void text_add_bytes(text *into, const char *bytes, size_t size);
void text_add(text *into, const char *string);
void text_addf(text *into, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_clear(text *t); /* forgets the contents, keeps the memory */
void text_free(text *t);
char *text_take(text *t); /* the contents, never NULL; the caller frees; `t` is empty afterwards */

void *need(void *memory);       /* `memory`, or the end of the process when it is NULL */
void *need_zeroed(size_t size); /* calloc that cannot fail */
void *need_grown(void *memory, size_t count, size_t *capacity, size_t item); /* room for one more than `count` */
char *copy_of(const char *string);
char *copy_of_bytes(const char *bytes, size_t size);
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

bool read_bytes(const char *path, text *into); /* false: it cannot be read, and `into` stays as it is */
char *read_whole_file(const char *path); /* NULL when it cannot be read; the caller frees */
bool write_whole_file(const char *path, const char *bytes, size_t size);

/* Is it one of the words, which blanks separate? */
bool word_among(const char *words, const char *word);
/* Writes blanks over the bytes from `begin` to `end`, or to the end of the string; line ends stay. */
void blank_out(char *string, size_t begin, size_t end);

/* Where the line that byte `at` stands in begins; and its number, from 1. */
size_t line_start(const char *string, size_t at);
unsigned line_number(const char *string, size_t at);

/* A list of strings that owns them. */
typedef struct names {
    char **items;
    size_t count, capacity;
} names;
void names_add(names *list, const char *string);
void names_add_bytes(names *list, const char *bytes, size_t size);
void names_add_all(names *list, const names *more);
void names_add_words(names *list, const char *const *words); /* NULL ends them */
char **names_arguments(names *list); /* as execv() wants them, with NULL behind the last; the list's own */
bool names_have(const names *list, const char *name);
void names_remove(names *list, size_t first, size_t count);
void names_free(names *list);

#endif
