/* A growing list of words, for building an argv. If memory is out, `failed` is set; the user of the list checks it
 * once.
 */
#ifndef KOLO_LAUNCH_WORDS_H
#define KOLO_LAUNCH_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct words {
    char **word; /* owned, ended by NULL; NULL: no word was added */
    size_t count;
    bool failed;
};

/* Adds a copy of `word`. */
void words_add(struct words *words, const char *word);
/* Adds an argument of the program to mpirun's command line, where ":" alone would begin another program: a word of a
 * ":" after any number of backslashes gets one backslash more. */
void words_add_shielded(struct words *words, const char *word);
/* The argument that words_add_shielded() was given. */
char *words_unshielded(char *word);
/* Adds the arguments, which end with NULL. */
void words_add_all(struct words *words, ...) __attribute__((sentinel));
/* Splits `text` like a shell (with quotes and variables, but without running commands) and adds the words. False if
 * that fails. */
bool words_add_split(struct words *words, const char *text);
/* The list as one line that a shell splits into the same words. The caller frees it; NULL if memory is out. */
char *words_line(const struct words *words);
void words_free(struct words *words);

#endif
