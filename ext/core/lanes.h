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
    kolo_words bits = (kolo_words)value, nan = (kolo_words)(value != value); // NOLINT(misc-redundant-expression): NaN
    bits = ((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16 & ~nan) | (0x7FC0u & nan);
    kolo_halves halves = __builtin_convertvector(bits, kolo_halves);
    memcpy((uint16_t *)to + at, &halves, (size_t)lanes * sizeof(uint16_t));
}

/* The same for loops to the end of a row, whose last lanes may be fewer: sixteen take the short way. */
KOLO_INLINE kolo_floats kolo_get_some(const void *from, int64_t at, int64_t lanes, int narrow)
{
    return lanes == KOLO_LANES ? kolo_get(from, at, KOLO_LANES, narrow) : kolo_get(from, at, lanes, narrow);
}
KOLO_INLINE void kolo_put_some(void *to, int64_t at, kolo_floats value, int64_t lanes, int narrow)
{
    if (lanes == KOLO_LANES) kolo_put(to, at, value, KOLO_LANES, narrow);
    else kolo_put(to, at, value, lanes, narrow);
}
/* How many lanes there are at element `at` of `count`. */
KOLO_INLINE int64_t kolo_lanes_at(int64_t at, int64_t count)
{
    return count - at < KOLO_LANES ? count - at : KOLO_LANES;
}
/* Zero beyond the first `lanes`. */
KOLO_INLINE kolo_floats kolo_only(kolo_floats x, int64_t lanes)
{
    const kolo_ints number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return lanes == KOLO_LANES ? x : (kolo_floats)((kolo_ints)x & (number < (int32_t)lanes));
}
/* Always in the same order. */
KOLO_INLINE float kolo_sum_lanes(kolo_floats x)
{
    float sum[KOLO_LANES];
    memcpy(sum, &x, sizeof sum);
    for (int half = KOLO_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    return sum[0];
}

/* The largest of x[count], count at least 1, where no element is NaN. */
KOLO_INLINE float kolo_largest(const float *x, int64_t count)
{
    enum { at_once = 4 * KOLO_LANES }; /* none waits for the one before */
    float most = x[0], lane[at_once];
    int64_t i = 0;
    for (int l = 0; l < at_once; l++) lane[l] = most;
    for (; i + at_once <= count; i += at_once)
        for (int l = 0; l < at_once; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i + KOLO_LANES <= count; i += KOLO_LANES)
        for (int l = 0; l < KOLO_LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int half = at_once / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
    most = lane[0];
    for (; i < count; i++) most = x[i] > most ? x[i] : most;
    return most;
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
