/* A growing list of words: an argv that is put together piece by piece.
 * Running out of memory is remembered in `failed` and checked once, when the list is used. */
#ifndef KOLO_LAUNCH_WORDS_H
#define KOLO_LAUNCH_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct words {
    char **word; /* ends in NULL once something was added; owned */
    size_t count;
    bool failed;
};

/* Adds a copy of `word`. */
void words_add(struct words *words, const char *word);
/* Adds each argument up to NULL. */
void words_add_all(struct words *words, ...) __attribute__((sentinel));
/* Splits `text` as a shell would (quotes, variables), runs nothing, and adds the words. False when `text` is not plain
 * words. */
bool words_add_split(struct words *words, const char *text);
/* The list as one line that a shell would read back as the same words. The caller frees it; NULL without memory. */
char *words_line(const struct words *words);
void words_free(struct words *words);

#endif
