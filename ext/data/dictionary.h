/* Dictionaries, which number words: the categories of a column, the vocabulary of a text. Words are numbered from 0
 * in the order in which they are added first. A word is any sequence of bytes, which may include 0. */
#ifndef KOLO_DATA_DICTIONARY_H
#define KOLO_DATA_DICTIONARY_H

#include "core/error.h"

typedef struct kolo_word {
    size_t at, length; /* in the dictionary's text */
    uint64_t hash;
    int64_t count; /* how often it was added */
} kolo_word;

/* A dictionary of all zeros is empty. */
typedef struct kolo_dictionary {
    kolo_word *words;
    int32_t size; /* words */
    size_t room;
    char *text; /* the words, one after the other */
    size_t text_size, text_room;
    int32_t *table; /* open addressing: number + 1, or 0 */
    size_t table_size;
} kolo_dictionary;

void kolo_dictionary_free(kolo_dictionary *dictionary);

/* Sets *number to the word's number, adds the word if it is new, and increases its count. */
kolo_status kolo_dictionary_add(kolo_dictionary *dictionary, const char *text, size_t length, int32_t *number);
/* The word's number; -1 if the dictionary does not have it. */
int32_t kolo_dictionary_find(const kolo_dictionary *dictionary, const char *text, size_t length);

/* The order, by their bytes, of words with the same count. */
typedef enum kolo_ties { KOLO_TIES_ASCENDING, KOLO_TIES_DESCENDING } kolo_ties;
/* Sets order[size], from malloc, to the words' numbers by descending count. */
kolo_status kolo_dictionary_order(const kolo_dictionary *dictionary, kolo_ties ties, int32_t **order);

/* Makes a list of strings in one block from malloc: the before_count strings of `before`, then the words
 * order[count], or the first `count` words if order is NULL. A 0 within a word ends its string. */
kolo_status kolo_dictionary_names(const kolo_dictionary *dictionary, const char *const *before, int before_count,
                                  const int32_t *order, int count, char ***names);

#endif
