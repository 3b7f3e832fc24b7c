/* Words with numbers: the categories of a column, the vocabulary of a text. Numbers are given in the order in which
 * words are first met; words are bytes, a 0 among them too. */
#ifndef KOLO_DATA_DICTIONARY_H
#define KOLO_DATA_DICTIONARY_H

#include "core/error.h"

typedef struct kolo_word {
    size_t at, length; /* in the dictionary's text */
    uint64_t hash;
    int64_t count; /* how often it was added */
} kolo_word;

/* All zero is an empty dictionary. */
typedef struct kolo_dictionary {
    kolo_word *words;
    int32_t size; /* words */
    size_t room;
    char *text;
    size_t text_size, text_room;
    int32_t *table; /* open addressing: number + 1, or 0 */
    size_t table_size;
} kolo_dictionary;

void kolo_dictionary_free(kolo_dictionary *dictionary);

/* The number of a word, which is put in when it is new, and counted. */
kolo_status kolo_dictionary_add(kolo_dictionary *dictionary, const char *text, size_t length, int32_t *number);
/* -1 where it is not in. */
int32_t kolo_dictionary_find(const kolo_dictionary *dictionary, const char *text, size_t length);

/* How words that were met equally often are ordered. */
typedef enum kolo_ties { KOLO_TIES_ASCENDING, KOLO_TIES_DESCENDING } kolo_ties;
/* order[size]: the words' numbers by descending count, ties by their bytes; from malloc. */
kolo_status kolo_dictionary_order(const kolo_dictionary *dictionary, kolo_ties ties, int32_t **order);

/* Texts as a list of strings in one block from malloc; cut at a 0 among their bytes. Those of order[count], or the
 * first `count` words where order is NULL, after `before` strings of another list. */
kolo_status kolo_dictionary_names(const kolo_dictionary *dictionary, const char *const *before, int before_count,
                                  const int32_t *order, int count, char ***names);

#endif
