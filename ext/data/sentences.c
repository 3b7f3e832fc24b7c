/* Synthetic text, for use without a real one. Words belong to categories, which follow each other as in a simple
 * grammar, and to topics; most words of a sample are of one topic. The next word therefore depends on the last word,
 * which any model can learn, and on much earlier words, which takes attention. Read chance.h first. */
#include "data/chance.h"
#include "data/dictionary.h"
#include "data/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SPECIAL        2 /* padding and unknown words come first, as in kolo_text */
#define CATEGORIES     12
#define FOLLOWERS      3 /* categories that may follow a category; drawn, so they may repeat */
#define TOPICS         8
#define FAITH          0.85f /* probability of the sample's topic; otherwise a word's topic is drawn */
#define VOCABULARY_MIN 200
#define VOCABULARY_MAX 100000
#define LENGTH_MAX     100000

typedef struct language {
    int vocabulary, length;
    uint64_t key;
    int followers[CATEGORIES][FOLLOWERS];
} language;

/* ------------------------------------------------------------------------------------------ words */

/* Spells a word as its number in base 60, each digit a syllable, so that words are pronounceable and distinct.
 * Returns the length; no 0 follows. */
static size_t spell(uint32_t number, char word[32])
{
    static const char consonants[] = "bdfgklmnprst", vowels[] = "aeiou";
    size_t length = 0;
    for (number += 60; number > 0; number /= 60) {
        word[length++] = consonants[number % 60 / 5];
        word[length++] = vowels[number % 5];
    }
    return length;
}

static kolo_status name_words(const language *l, kolo_arrays *arrays)
{
    static const char *const special[SPECIAL] = {"", "[UNK]"};
    kolo_dictionary words = {0};
    kolo_status status = KOLO_OK;
    for (int i = SPECIAL; i < l->vocabulary && status == KOLO_OK; i++) {
        char word[32];
        int32_t number;
        status = kolo_dictionary_add(&words, word, spell((uint32_t)i, word), &number);
    }
    if (status == KOLO_OK)
        status = kolo_dictionary_names(&words, special, SPECIAL, NULL, words.size, &arrays->class_names);
    arrays->classes = words.size + SPECIAL;
    kolo_dictionary_free(&words);
    return status;
}

/* Within a category and a topic the first words are the most frequent, about as 1/rank (Zipf). Words of all categories
 * and topics are interleaved, so that small numbers are frequent words, as in a counted vocabulary. */
static int32_t pick_word(const language *l, int category, int topic, kolo_chance *c)
{
    int words = (l->vocabulary - SPECIAL) / (CATEGORIES * TOPICS);
    float rank = expf(kolo_chance_between(c, 0, 1) * logf((float)words + 1)) - 1;
    int place = (int)rank < words ? (int)rank : words - 1;
    return SPECIAL + (place * CATEGORIES + category) * TOPICS + topic;
}

/* ------------------------------------------------------------------------------------------ samples */

static void draw_sample(const language *l, int64_t sample, int32_t *tokens, int32_t *labels)
{
    kolo_chance c = {.key = l->key, .sample = (uint64_t)sample};
    int topic = (int)kolo_chance_below(&c, TOPICS), category = 0;
    int words = l->length + 1 - (int)kolo_chance_below(&c, (uint32_t)l->length / 2 + 1);
    for (int i = 0; i <= l->length; i++) {
        bool faithful = kolo_chance_between(&c, 0, 1) < FAITH;
        int of = faithful ? topic : (int)kolo_chance_below(&c, TOPICS);
        int32_t word = i < words ? pick_word(l, category, of, &c) : 0;
        if (i < l->length) tokens[i] = word;
        if (i > 0) labels[i - 1] = word;
        category = l->followers[category][kolo_chance_below(&c, FOLLOWERS)];
    }
}

static kolo_status check(const kolo_synthetic_text_args *args, language *l, int64_t *samples)
{
    if (args->split != KOLO_TRAIN && args->split != KOLO_TEST)
        return kolo_fail(KOLO_INVALID, ".split: wanted KOLO_TRAIN or KOLO_TEST, got %d", (int)args->split);
    l->vocabulary = args->vocabulary ? args->vocabulary : 2000;
    if (l->vocabulary < VOCABULARY_MIN || l->vocabulary > VOCABULARY_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .vocabulary of %d to %d, got %d", VOCABULARY_MIN, VOCABULARY_MAX,
                         l->vocabulary);
    l->length = args->length ? args->length : 80;
    if (l->length < 1 || l->length > LENGTH_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .length of 1 to %d, got %d", LENGTH_MAX, l->length);
    *samples = args->samples ? args->samples : args->split == KOLO_TRAIN ? 20000 : 4000;
    if (*samples < 1 || *samples > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .samples of 1 to %d, got %" PRId64, KOLO_SAMPLES_MAX, *samples);
    return KOLO_OK;
}

static kolo_status draw(kolo_arrays *arrays, const language *l)
{
    size_t bytes = (size_t)arrays->samples * (size_t)l->length * sizeof *arrays->tokens;
    arrays->tokens = malloc(bytes);
    arrays->labels = malloc(bytes);
    if (!arrays->tokens || !arrays->labels) return kolo_fail_memory(2 * bytes, "the words of a text");
    for (int64_t i = 0; i < arrays->samples; i++)
        draw_sample(l, i, arrays->tokens + i * l->length, arrays->labels + i * l->length);
    return name_words(l, arrays);
}

static kolo_status draw_text(kolo_arrays *arrays, const kolo_synthetic_text_args *args)
{
    int64_t samples = 0;
    language l = {0};
    uint64_t seed = args->seed ? args->seed : 1;
    KOLO_TRY(check(args, &l, &samples));
    kolo_chance c = {.key = kolo_random_key(seed, KOLO_RANDOM_SYNTHETIC, 0)};
    for (int i = 0; i < CATEGORIES; i++)
        for (int k = 0; k < FOLLOWERS; k++) l.followers[i][k] = (int)kolo_chance_below(&c, CATEGORIES);
    l.key = kolo_random_key(seed, KOLO_RANDOM_SYNTHETIC, (uint64_t)args->split); /* the splits use different streams */
    *arrays = (kolo_arrays){
        .samples = samples, .shape = {1, {l.length}}, .scale = 1, .label_count = l.length, .synthetic = true};
    snprintf(arrays->source, sizeof arrays->source, "a text drawn by Kolo (seed %" PRIu64 ")", seed);
    return draw(arrays, &l);
}

kolo_data *kolo_synthetic_text_at(const kolo_synthetic_text_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_synthetic_text", here);
    return kolo_arrays_leave(scope, draw_text(&arrays, args), &arrays);
}
