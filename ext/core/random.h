/* Random numbers that depend on nothing but their name.
 *
 * Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a keyed function of a counter.
 * Whoever asks for number i of stream s gets the same one on any thread, replica or rank; that is what makes dropout
 * and shuffling independent of how many devices there are.
 */
#ifndef KOLO_CORE_RANDOM_H
#define KOLO_CORE_RANDOM_H

#include <kolo.h>

typedef struct kolo_random_block {
    uint32_t word[4];
} kolo_random_block;

static inline kolo_random_block kolo_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high)
{
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (kolo_random_block){{c0, c1, c2, c3}};
}

/* What a stream is for; each purpose has streams of its own under one seed. */
typedef enum kolo_random_purpose {
    KOLO_RANDOM_WEIGHTS = 1,
    KOLO_RANDOM_ORDER,
    KOLO_RANDOM_DROPOUT,
    KOLO_RANDOM_DIGITS,
    KOLO_RANDOM_SYNTHETIC,
    KOLO_RANDOM_SAMPLE,
    KOLO_RANDOM_AUGMENT,
    KOLO_RANDOM_MAP
} kolo_random_purpose;

/* The key of stream `number` for a purpose under a seed (SplitMix64's mixing). */
uint64_t kolo_random_key(uint64_t seed, kolo_random_purpose purpose, uint64_t number);

/* [0, 1), 24 bits. */
static inline float kolo_random_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Dropout. Element e (in the order of the sample's canonical shape) of sample s (its number in the global batch) of a
 * layer at a step is dropped when bits < rate·2³²: bits is word[e % 4] of
 * kolo_philox(kolo_dropout_key(seed, layer, step), e / 4, s). */
static inline uint64_t kolo_dropout_key(uint64_t seed, int layer, uint64_t step)
{
    return kolo_random_key(kolo_random_key(seed, KOLO_RANDOM_DROPOUT, (uint64_t)layer), KOLO_RANDOM_DROPOUT, step);
}
static inline uint32_t kolo_dropout_threshold(double rate)
{
    return (uint32_t)(rate * 4294967296.0);
}

/* Element e of sample s of a standard normal distribution: Box and Muller's two numbers of each pair of words of
 * kolo_philox(key, e / 4, s). */
double kolo_random_normal(uint64_t key, uint64_t element, uint64_t sample);

/* A seed nobody chose. */
uint64_t kolo_random_seed(void);
/* order[i] = a permutation of 0 … count-1, by (seed, epoch). */
void kolo_random_permutation(uint64_t seed, uint64_t epoch, int64_t count, int32_t *order);
/* The same where each is drawn from the next `buffer` that are left; buffer 0: from all, the permutation. */
void kolo_random_order(uint64_t seed, uint64_t epoch, int64_t count, int64_t buffer, int32_t *order);

#endif
