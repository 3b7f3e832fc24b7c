/* The part of core/random.h that kernels on devices use, too; written in the common subset of C and CUDA C. */
#ifndef KOLO_CORE_PHILOX_H
#define KOLO_CORE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define KOLO_EVERYWHERE __host__ __device__ static inline
#else
#define KOLO_EVERYWHERE static inline
#endif

typedef struct kolo_random_block {
    uint32_t word[4];
} kolo_random_block;

KOLO_EVERYWHERE kolo_random_block kolo_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high)
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
    kolo_random_block block = {{c0, c1, c2, c3}};
    return block;
}

/* The purpose of a random stream; each purpose has separate streams under one seed. */
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

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the input affects every bit of the output. */
KOLO_EVERYWHERE uint64_t kolo_mix(uint64_t value)
{
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

/* The key of stream `number` for a purpose under a seed. */
KOLO_EVERYWHERE uint64_t kolo_random_key(uint64_t seed, kolo_random_purpose purpose, uint64_t number)
{
    return kolo_mix(kolo_mix(kolo_mix(seed) + (uint64_t)purpose) + number);
}

/* A number in [0, 1) with 24 bits. */
KOLO_EVERYWHERE float kolo_random_unit(uint32_t word)
{
    return (float)(word >> 8) * 5.9604644775390625e-8f;
}

/* Dropout. Element e (in the order of the sample's canonical shape) of sample s (its number in the global batch) of a
 * layer at a step is dropped when bits < rate·2³²: bits is word[e % 4] of
 * kolo_philox(kolo_dropout_key(seed, layer, step), e / 4, s). */
KOLO_EVERYWHERE uint64_t kolo_dropout_key(uint64_t seed, int layer, uint64_t step)
{
    return kolo_random_key(kolo_random_key(seed, KOLO_RANDOM_DROPOUT, (uint64_t)layer), KOLO_RANDOM_DROPOUT, step);
}
KOLO_EVERYWHERE uint32_t kolo_dropout_threshold(double rate)
{
    return (uint32_t)(rate * 4294967296.0);
}

#endif
