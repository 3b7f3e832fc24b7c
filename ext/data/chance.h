/* The random numbers of one synthetic sample, in order. Each sample has a separate stream, so samples can be drawn in
 * any order. */
#ifndef KOLO_DATA_CHANCE_H
#define KOLO_DATA_CHANCE_H

#include "core/random.h"

#include <math.h>

typedef struct kolo_chance {
    uint64_t key, sample, block;
    kolo_random_block words;
    int left;
} kolo_chance;

static inline uint32_t kolo_chance_word(kolo_chance *chance)
{
    if (chance->left == 0) {
        chance->words = kolo_philox(chance->key, chance->block++, chance->sample);
        chance->left = 4;
    }
    return chance->words.word[--chance->left];
}

/* Draws from 0 … below-1, uniformly up to a relative error of below/2³². */
static inline uint32_t kolo_chance_below(kolo_chance *chance, uint32_t below)
{
    return (uint32_t)((uint64_t)kolo_chance_word(chance) * below >> 32);
}

static inline float kolo_chance_between(kolo_chance *chance, float low, float high)
{
    return low + (high - low) * kolo_random_unit(kolo_chance_word(chance));
}

/* Draws from the normal distribution of mean 0 and variance 1: one of the two numbers of Box and Muller 1958. */
static inline float kolo_chance_normal(kolo_chance *chance)
{
    float radius = sqrtf(-2 * logf(1 - kolo_random_unit(kolo_chance_word(chance))));
    return radius * cosf(6.28318531f * kolo_random_unit(kolo_chance_word(chance)));
}

#endif
