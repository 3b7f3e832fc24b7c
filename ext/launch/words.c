/* Lists of words: see words.h. */
#include "launch/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wordexp.h>

void words_add(struct words *words, const char *word)
{
    char *copy = strdup(word);
    char **grown = realloc(words->word, (words->count + 2) * sizeof *grown);
    if (grown) words->word = grown;
    if (!copy || !grown) {
        words->failed = true;
        free(copy);
        return;
    }
    words->word[words->count++] = copy;
    words->word[words->count] = NULL;
}

static bool ends_in_colon(const char *word)
{
    return !strcmp(word + strspn(word, "\\"), ":");
}

void words_add_shielded(struct words *words, const char *word)
{
    words_add(words, ends_in_colon(word) ? "\\" : "");
    char **last = words->failed ? NULL : &words->word[words->count - 1];
    char *whole = last ? realloc(*last, strlen(*last) + strlen(word) + 1) : NULL;
    if (whole) *last = strcat(whole, word);
    else words->failed = true;
}

char *words_unshielded(char *word)
{
    return *word == '\\' && ends_in_colon(word) ? word + 1 : word;
}

void words_add_all(struct words *words, ...)
{
    va_list arguments;
    va_start(arguments, words);
    for (const char *word; (word = va_arg(arguments, const char *));) words_add(words, word);
    va_end(arguments);
}

bool words_add_split(struct words *words, const char *text)
{
    wordexp_t split;
    int code = wordexp(text, &split, WRDE_NOCMD);
    if (code == WRDE_NOSPACE) wordfree(&split);
    if (code) return false;
    for (size_t i = 0; i < split.we_wordc; i++) words_add(words, split.we_wordv[i]);
    wordfree(&split);
    return true;
}

static bool is_plain(const char *word)
{
    return *word &&
           strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%^") == strlen(word);
}

static void print_quoted(FILE *out, const char *word)
{
    if (is_plain(word)) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, out);
    fputc('\'', out);
}

char *words_line(const struct words *words)
{
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    if (!out) return NULL;
    for (size_t i = 0; i < words->count; i++) {
        if (i) fputc(' ', out);
        print_quoted(out, words->word[i]);
    }
    if (fclose(out) == 0) return line;
    free(line);
    return NULL;
}

void words_free(struct words *words)
{
    for (size_t i = 0; i < words->count; i++) free(words->word[i]);
    free(words->word);
    *words = (struct words){0};
}
