/* Dictionaries: see dictionary.h. */
#include "data/dictionary.h"
#include "core/grow.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

void kolo_dictionary_free(kolo_dictionary *dictionary)
{
    free(dictionary->words), free(dictionary->text), free(dictionary->table);
    *dictionary = (kolo_dictionary){0};
}

/* The high bits are folded into the low ones, which index tables of a power of two. */
static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = kolo_hash_add(KOLO_HASH_START, text, length);
    return hash ^ hash >> 29;
}

/* The table's slot that holds the word, or the empty slot where it belongs. */
static size_t place_of(const kolo_dictionary *d, const char *text, size_t length, uint64_t hash)
{
    size_t at = (size_t)hash & (d->table_size - 1);
    for (; d->table[at]; at = (at + 1) & (d->table_size - 1)) {
        const kolo_word *word = &d->words[d->table[at] - 1];
        if (word->hash == hash && word->length == length && memcmp(d->text + word->at, text, length) == 0) break;
    }
    return at;
}

int32_t kolo_dictionary_find(const kolo_dictionary *dictionary, const char *text, size_t length)
{
    if (!dictionary->table_size) return -1;
    return dictionary->table[place_of(dictionary, text, length, hash_of(text, length))] - 1;
}

/* Doubles the table, which is kept at most half full. */
static kolo_status grow_table(kolo_dictionary *d)
{
    size_t size = d->table_size ? d->table_size * 2 : 64;
    int32_t *table = calloc(size, sizeof *table);
    if (!table) return kolo_fail_memory(size * sizeof *table, "a dictionary");
    for (int32_t i = 0; i < d->size; i++) {
        size_t at = (size_t)d->words[i].hash & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = i + 1;
    }
    free(d->table);
    d->table = table;
    d->table_size = size;
    return KOLO_OK;
}

static kolo_status put_in(kolo_dictionary *d, const char *text, size_t length, uint64_t hash)
{
    if (d->size == INT32_MAX - 1) return kolo_fail(KOLO_UNSUPPORTED, "wanted fewer than %d words", INT32_MAX);
    KOLO_TRY(kolo_make_room(&d->words, &d->room, (size_t)d->size + 1, sizeof *d->words, "a dictionary"));
    KOLO_TRY(kolo_make_room(&d->text, &d->text_room, d->text_size + length + 1, 1, "a dictionary"));
    memcpy(d->text + d->text_size, text, length);
    d->words[d->size++] = (kolo_word){d->text_size, length, hash, 0};
    d->text_size += length;
    return KOLO_OK;
}

kolo_status kolo_dictionary_add(kolo_dictionary *dictionary, const char *text, size_t length, int32_t *number)
{
    kolo_dictionary *d = dictionary;
    if ((size_t)d->size * 2 >= d->table_size) KOLO_TRY(grow_table(d));
    uint64_t hash = hash_of(text, length);
    size_t at = place_of(d, text, length, hash);
    if (!d->table[at]) {
        KOLO_TRY(put_in(d, text, length, hash));
        d->table[at] = d->size;
    }
    *number = d->table[at] - 1;
    d->words[*number].count++;
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ order */

typedef struct ranked {
    const char *text;
    size_t length;
    int64_t count;
    int32_t number;
    int sign; /* order of ties: 1 ascending, -1 descending */
} ranked;

static int compare(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    int bytes = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    if (bytes == 0) bytes = a->length < b->length ? -1 : 1;
    return a->sign * bytes;
}

kolo_status kolo_dictionary_order(const kolo_dictionary *dictionary, kolo_ties ties, int32_t **order)
{
    size_t size = (size_t)dictionary->size;
    ranked *list = malloc((size + 1) * sizeof *list);
    *order = malloc((size + 1) * sizeof **order);
    if (!list || !*order) {
        free(list), free(*order), *order = NULL;
        return kolo_fail_memory((size + 1) * (sizeof *list + sizeof **order), "a dictionary");
    }
    for (size_t i = 0; i < size; i++) {
        const kolo_word *word = &dictionary->words[i];
        list[i] = (ranked){dictionary->text + word->at, word->length, word->count, (int32_t)i,
                           ties == KOLO_TIES_ASCENDING ? 1 : -1};
    }
    qsort(list, size, sizeof *list, compare);
    for (size_t i = 0; i < size; i++) (*order)[i] = list[i].number;
    free(list);
    return KOLO_OK;
}

static char *write_name(char **names, int index, char *at, const char *text, size_t length)
{
    names[index] = at;
    memcpy(at, text, length);
    at[length] = 0;
    return at + length + 1;
}

kolo_status kolo_dictionary_names(const kolo_dictionary *dictionary, const char *const *before, int before_count,
                                  const int32_t *order, int count, char ***names)
{
    size_t pointers = (size_t)(before_count + count) * sizeof **names, size = pointers + 1;
    for (int i = 0; i < before_count; i++) size += strlen(before[i]) + 1;
    for (int i = 0; i < count; i++) size += dictionary->words[order ? order[i] : i].length + 1;
    if (!(*names = malloc(size))) return kolo_fail_memory(size, "names");
    char *at = (char *)*names + pointers;
    for (int i = 0; i < before_count; i++) at = write_name(*names, i, at, before[i], strlen(before[i]));
    for (int i = 0; i < count; i++) {
        const kolo_word *word = &dictionary->words[order ? order[i] : i];
        at = write_name(*names, before_count + i, at, dictionary->text + word->at, word->length);
    }
    return KOLO_OK;
}
