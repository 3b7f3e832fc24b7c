/* Text as numbers of words, by the rules of Keras's TextVectorization: letters become lower case (only ASCII's, as in
 * TensorFlow), punctuation is removed, words are separated by spaces. 0 is padding, 1 a word that is not in the
 * vocabulary; the others are numbered by descending frequency, equally frequent words in descending order of their
 * bytes. A sample is `length` words; its labels are the words that follow each of them. Read dictionary.h first. */
#include "core/utf8.h"
#include "core/grow.h"
#include "data/data.h"
#include "data/dictionary.h"
#include "data/reader.h"
#include "data/sources.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PADDING     0
#define UNKNOWN     1
#define SPECIAL     2
#define LENGTH_MAX  1000000
#define END_OF_LINE (-1) /* marks the end of a line among the numbers of words */
#define NO_WORD     (-2) /* the word "[UNK]" in the text, which does not enter the vocabulary */

static const char *const special_names[SPECIAL] = {"", "[UNK]"};

typedef struct corpus {
    const kolo_text_args *args;
    int length, vocabulary;
    kolo_dictionary words; /* in the order of their first occurrence, or the vocabulary of .like */
    bool fixed;            /* no words are added: the vocabulary is that of .like */
    int32_t *numbers;      /* of the text's words in `words`, with END_OF_LINE after each line that has words */
    size_t count, room;
    char *word; /* the word that is being read */
    size_t word_room;
} corpus;

/* ------------------------------------------------------------------------------------------ words of a line */

static kolo_status add_number(corpus *c, int32_t number)
{
    KOLO_TRY(kolo_make_room(&c->numbers, &c->room, c->count + 1, sizeof *c->numbers, "the words of a text"));
    c->numbers[c->count++] = number;
    return KOLO_OK;
}

/* Adds a word of the text. Its number is its place in a given vocabulary, else in the order of first occurrences. */
static kolo_status add_word(corpus *c, const char *word, size_t length)
{
    int32_t number;
    if (c->fixed) {
        number = kolo_dictionary_find(&c->words, word, length);
        return add_number(c, number < 0 ? UNKNOWN : number);
    }
    if (length == strlen(special_names[UNKNOWN]) && memcmp(word, special_names[UNKNOWN], length) == 0)
        return add_number(c, NO_WORD);
    KOLO_TRY(kolo_dictionary_add(&c->words, word, length, &number));
    return add_number(c, number);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_punctuation(char c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

static kolo_status end_word(corpus *c, size_t *length)
{
    size_t size = *length;
    *length = 0;
    return size ? add_word(c, c->word, size) : KOLO_OK;
}

static kolo_status add_words(corpus *c, const char *line, size_t size)
{
    size_t length = 0;
    kolo_punctuation rule = c->args->punctuation ? c->args->punctuation : KOLO_PUNCTUATION_STRIP;
    for (size_t i = 0; i < size; i++) {
        char letter = line[i];
        bool mark = is_punctuation(letter);
        if (is_space(letter) || (mark && rule == KOLO_PUNCTUATION_SEPARATE)) KOLO_TRY(end_word(c, &length));
        if (is_space(letter) || (mark && rule == KOLO_PUNCTUATION_STRIP)) continue;
        bool lower = letter >= 'A' && letter <= 'Z' && !c->args->keep_case;
        c->word[length++] = (char)(lower ? letter - 'A' + 'a' : letter);
    }
    return end_word(c, &length);
}

static kolo_status add_characters(corpus *c, const char *line, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t length = kolo_utf8_size(line + i, size - i);
        KOLO_TRY(add_word(c, line + i, length));
        i += length;
    }
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ files */

static kolo_status add_text(corpus *c, const char *text, size_t size)
{
    KOLO_TRY(kolo_make_room(&c->word, &c->word_room, size, 1, "a line of a text"));
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, size -= 3;
    while (size > 0) {
        const char *end = c->args->continuous ? NULL : memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) : size, before = c->count;
        size_t told = length && text[length - 1] == '\r' && !c->args->continuous ? length - 1 : length;
        KOLO_TRY(c->args->characters ? add_characters(c, text, told) : add_words(c, text, told));
        if (c->count > before && !c->args->continuous) KOLO_TRY(add_number(c, END_OF_LINE));
        length += end != NULL;
        text += length, size -= length;
    }
    return KOLO_OK;
}

/* Fails unless a file is UTF-8 without a NUL: otherwise a text in another encoding, or a file that is not text, would
 * be read as words. */
static kolo_status check_utf8(const char *path, const char *text, size_t size)
{
    long long line = 1;
    if (size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return kolo_fail(KOLO_FORMAT, "%s: wanted a text in UTF-8, got UTF-16", path);
    for (size_t i = 0; i < size;) {
        size_t length = text[i] ? kolo_utf8_size(text + i, size - i) : 0;
        if (length == 0)
            return kolo_fail(KOLO_FORMAT,
                             "%s: wanted a text in UTF-8, got byte 0x%02X in line %lld, which is none of it", path,
                             (unsigned char)text[i], line);
        line += text[i] == '\n';
        i += length;
    }
    return KOLO_OK;
}

static kolo_status read_file(corpus *c, const char *path)
{
    uint8_t *bytes;
    int64_t size;
    KOLO_TRY(kolo_reader_whole(path, "a text", &bytes, &size));
    kolo_status status = check_utf8(path, (const char *)bytes, (size_t)size);
    if (status == KOLO_OK) status = add_text(c, (const char *)bytes, (size_t)size);
    free(bytes);
    return status;
}

static int is_named(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Reads the files of a folder in the order of their names. Folders in it, empty files and hidden files are skipped. */
static kolo_status read_folder(corpus *c, const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_named, alphasort), files = 0;
    if (count < 0) return kolo_fail(KOLO_IO, "%s: wanted a folder of texts that can be read", folder);
    kolo_status status = KOLO_OK;
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct stat info;
        bool fits = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) < (int)sizeof path;
        bool text = fits && stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
        if (status == KOLO_OK && text) status = read_file(c, path);
        files += text;
        free(entries[i]);
    }
    free(entries);
    if (status == KOLO_OK && files == 0)
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted texts in this folder, got none", folder);
    return status;
}

/* ------------------------------------------------------------------------------------------ the vocabulary */

static kolo_status take_vocabulary(corpus *c, const kolo_data *like)
{
    int32_t number;
    if (!like->class_names || !like->has_tokens)
        return kolo_fail(KOLO_INVALID, "wanted .like made by kolo_text(), which has a vocabulary, got data of %s",
                         like->source);
    for (int i = 0; i < like->classes; i++)
        KOLO_TRY(kolo_dictionary_add(&c->words, like->class_names[i], strlen(like->class_names[i]), &number));
    c->fixed = true;
    return KOLO_OK;
}

/* Chooses the vocabulary, sets the class names, and renumbers the text's words to their places in the vocabulary. */
static kolo_status rank_words(corpus *c, kolo_arrays *arrays)
{
    int32_t *order, *rank, kept = c->words.size;
    if (c->fixed)
        return kolo_dictionary_names(&c->words, NULL, 0, NULL, arrays->classes = c->words.size, &arrays->class_names);
    KOLO_TRY(kolo_dictionary_order(&c->words, KOLO_TIES_DESCENDING, &order));
    if (kept > c->vocabulary - SPECIAL) kept = c->vocabulary - SPECIAL;
    arrays->classes = kept + SPECIAL;
    kolo_status status = kolo_dictionary_names(&c->words, special_names, SPECIAL, order, kept, &arrays->class_names);
    rank = status == KOLO_OK ? malloc((size_t)(c->words.size + 1) * sizeof *rank) : NULL;
    if (status == KOLO_OK && !rank) status = kolo_fail_memory((size_t)c->words.size * sizeof *rank, "a vocabulary");
    for (int32_t i = 0; rank && i < c->words.size; i++) rank[order[i]] = i < kept ? i + SPECIAL : UNKNOWN;
    for (size_t i = 0; rank && i < c->count; i++)
        if (c->numbers[i] != END_OF_LINE) c->numbers[i] = c->numbers[i] == NO_WORD ? UNKNOWN : rank[c->numbers[i]];
    free(rank), free(order);
    return status;
}

/* ------------------------------------------------------------------------------------------ samples */

static void put_sample(kolo_arrays *arrays, int64_t sample, int length, const int32_t *words, size_t count)
{
    int32_t *tokens = arrays->tokens + sample * length, *labels = arrays->labels + sample * length;
    for (size_t i = 0; i < (size_t)length; i++) {
        tokens[i] = i < count ? words[i] : PADDING;
        labels[i] = i + 1 < count ? words[i + 1] : PADDING;
    }
}

static int64_t count_samples(const corpus *c)
{
    int64_t lines = 0;
    if (c->args->continuous) return c->count ? (int64_t)(c->count - 1) / c->length : 0;
    for (size_t i = 0; i < c->count; i++) lines += c->numbers[i] == END_OF_LINE;
    return lines;
}

static kolo_status cut_samples(const corpus *c, kolo_arrays *arrays)
{
    size_t length = (size_t)c->length, bytes;
    arrays->samples = count_samples(c);
    if (arrays->samples == 0)
        return kolo_fail(KOLO_FORMAT, "%s: wanted %s, got %zu words", c->args->path,
                         c->args->continuous ? "more than .length words" : "lines with words", c->count);
    if (arrays->samples > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted at most %d samples, got more", c->args->path, KOLO_SAMPLES_MAX);
    bytes = (size_t)arrays->samples * length * sizeof *arrays->tokens;
    arrays->tokens = malloc(bytes);
    arrays->labels = malloc(bytes);
    if (!arrays->tokens || !arrays->labels) return kolo_fail_memory(2 * bytes, "the words of a text");
    arrays->shape = (kolo_shape){1, {c->length}};
    arrays->label_count = c->length;
    arrays->scale = 1;
    if (c->args->continuous) {
        for (int64_t i = 0; i < arrays->samples; i++)
            put_sample(arrays, i, c->length, c->numbers + (size_t)i * length, length + 1);
        return KOLO_OK;
    }
    for (size_t i = 0, begin = 0, sample = 0; i < c->count; i++) {
        if (c->numbers[i] != END_OF_LINE) continue;
        size_t words = i - begin < length + 1 ? i - begin : length + 1;
        put_sample(arrays, (int64_t)sample++, c->length, c->numbers + begin, words);
        begin = i + 1;
    }
    return KOLO_OK;
}

static kolo_status read_corpus(corpus *c, kolo_arrays *arrays)
{
    struct stat info;
    const char *path = c->args->path;
    if (c->args->like) KOLO_TRY(take_vocabulary(c, c->args->like));
    bool folder = path && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    KOLO_TRY(folder ? read_folder(c, path) : read_file(c, path));
    KOLO_TRY(rank_words(c, arrays));
    KOLO_TRY(cut_samples(c, arrays));
    snprintf(arrays->source, sizeof arrays->source, "%s", path);
    return KOLO_OK;
}

kolo_status kolo_text_read(kolo_arrays *arrays, const kolo_text_args *args)
{
    corpus c = {.args = args, .length = args->length ? args->length : 80};
    c.vocabulary = args->vocabulary ? args->vocabulary : 20000;
    if (c.length < 1 || c.length > LENGTH_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .length of 1 to %d, got %d", LENGTH_MAX, c.length);
    if (c.vocabulary <= SPECIAL)
        return kolo_fail(KOLO_INVALID, "wanted .vocabulary of at least %d, got %d", SPECIAL + 1, c.vocabulary);
    kolo_status status = read_corpus(&c, arrays);
    kolo_dictionary_free(&c.words);
    free(c.numbers), free(c.word);
    return status;
}

kolo_data *kolo_text_at(const kolo_text_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_text", here);
    return kolo_arrays_leave(scope, kolo_text_read(&arrays, args), &arrays);
}
