/* Sixteen elements at once, for loops of our own: a cache line of floats, one register of AVX-512, two of AVX2.
 *
 * In memory elements are float32 or bfloat16 (the upper half of a float32). `narrow`, which of them, is a constant
 * wherever these are inlined; so is `lanes`, how many of the sixteen there are, where it is sixteen.
 */
#ifndef KOLO_CORE_LANES_H
#define KOLO_CORE_LANES_H

#include <stdint.h>
#include <string.h>

#define KOLO_INLINE static inline __attribute__((always_inline))
#define KOLO_LANES  16

typedef float kolo_floats __attribute__((vector_size(64)));
typedef int32_t kolo_ints __attribute__((vector_size(64)));
typedef uint32_t kolo_words __attribute__((vector_size(64)));
typedef uint16_t kolo_halves __attribute__((vector_size(32)));
typedef uint8_t kolo_bytes __attribute__((vector_size(16)));

KOLO_INLINE kolo_floats kolo_get(const void *from, int64_t at, int64_t lanes, int narrow)
{
    kolo_halves halves = {0};
    kolo_floats floats = {0};
    if (narrow) {
        memcpy(&halves, (const uint16_t *)from + at, (size_t)lanes * sizeof(uint16_t));
        return (kolo_floats)(__builtin_convertvector(halves, kolo_words) << 16);
    }
    memcpy(&floats, (const float *)from + at, (size_t)lanes * sizeof(float));
    return floats;
}

/* To the nearest bfloat16, of two as near the even one; NaN stays NaN. */
KOLO_INLINE void kolo_put(void *to, int64_t at, kolo_floats value, int64_t lanes, int narrow)
{
    if (!narrow) {
        memcpy((float *)to + at, &value, (size_t)lanes * sizeof(float));
        return;
    }
    kolo_words bits = (kolo_words)value, nan = (kolo_words)(value != value);
    bits = ((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16 & ~nan) | (0x7FC0u & nan);
    kolo_halves halves = __builtin_convertvector(bits, kolo_halves);
    memcpy((uint16_t *)to + at, &halves, (size_t)lanes * sizeof(uint16_t));
}

/* Where the mask (all ones or all zeros in each lane) is set, yes; else no. */
KOLO_INLINE kolo_floats kolo_select_floats(kolo_ints mask, kolo_floats yes, kolo_floats no)
{
    return (kolo_floats)((mask & (kolo_ints)yes) | (~mask & (kolo_ints)no));
}
KOLO_INLINE kolo_ints kolo_select_ints(kolo_ints mask, kolo_ints yes, kolo_ints no)
{
    return (mask & yes) | (~mask & no);
}

#endif
