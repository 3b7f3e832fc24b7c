/* Vectors of sixteen elements, for loops in C: one cache line of floats, one AVX-512 register or two AVX2 registers.
 *
 * In memory elements are float32, or with `narrow` bfloat16 (the upper half of a float32). `lanes` is the number of
 * elements in use, at most sixteen. Wherever these functions are inlined, `narrow` is a constant, and `lanes` is a
 * constant if it is sixteen. `narrow` is KOLO_BY_CPU only in functions that core/vector.h compiles for a CPU that
 * rounds to bfloat16 by itself.
 */
#ifndef KOLO_CORE_LANES_H
#define KOLO_CORE_LANES_H

#include <stdint.h>
#include <string.h>

#define KOLO_INLINE static inline __attribute__((always_inline))
#define KOLO_LANES  16
#define KOLO_BY_CPU 2

typedef float kolo_floats __attribute__((vector_size(64)));
typedef int32_t kolo_ints __attribute__((vector_size(64)));
typedef uint32_t kolo_words __attribute__((vector_size(64)));
typedef uint16_t kolo_halves __attribute__((vector_size(32)));
typedef uint8_t kolo_bytes __attribute__((vector_size(16)));

/* Conversions between elements of different sizes are loops: gcc 12 makes one instruction of such a loop, but four or
 * more of __builtin_convertvector(). */
KOLO_INLINE kolo_floats kolo_get(const void *from, int64_t at, int64_t lanes, int narrow)
{
    kolo_floats floats = {0};
    if (narrow) {
        uint16_t halves[KOLO_LANES] = {0};
        uint32_t words[KOLO_LANES];
        memcpy(halves, (const uint16_t *)from + at, (size_t)lanes * sizeof(uint16_t));
        for (int i = 0; i < KOLO_LANES; i++) words[i] = (uint32_t)halves[i] << 16;
        memcpy(&floats, words, sizeof floats);
        return floats;
    }
    memcpy(&floats, (const float *)from + at, (size_t)lanes * sizeof(float));
    return floats;
}

/* The bits of the nearest bfloat16, ties to even, in the lower half of each element; NaN stays NaN. */
KOLO_INLINE kolo_words kolo_nearest_bits(kolo_floats value)
{
    kolo_words bits = (kolo_words)value, nan = (kolo_words)(value != value); // NOLINT(misc-redundant-expression): NaN
    return ((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16 & ~nan) | (0x7FC0u & nan);
}

/* The nearest bfloat16 values. The instruction takes subnormal floats for zero. Other compilers than gcc check the
 * sizes of its operands even where it is never reached. */
KOLO_INLINE void kolo_narrow(kolo_floats value, int narrow, uint16_t halves[KOLO_LANES])
{
#if defined(__x86_64__) && !defined(__clang__)
    if (narrow == KOLO_BY_CPU) {
        kolo_halves nearest;
        __asm__("vcvtneps2bf16 %1, %0" : "=v"(nearest) : "v"(value));
        memcpy(halves, &nearest, sizeof nearest);
        return;
    }
#else
    (void)narrow;
#endif
    kolo_words bits = kolo_nearest_bits(value);
    uint32_t words[KOLO_LANES];
    memcpy(words, &bits, sizeof words);
    for (int i = 0; i < KOLO_LANES; i++) halves[i] = (uint16_t)words[i];
}

/* What kolo_get() reads after kolo_put(). */
KOLO_INLINE kolo_floats kolo_rounded(kolo_floats value, int narrow)
{
    uint16_t halves[KOLO_LANES];
    if (!narrow) return value;
    if (narrow != KOLO_BY_CPU) return (kolo_floats)(kolo_nearest_bits(value) << 16);
    kolo_narrow(value, narrow, halves);
    return kolo_get(halves, 0, KOLO_LANES, narrow);
}

/* Rounds to the nearest bfloat16. */
KOLO_INLINE void kolo_put(void *to, int64_t at, kolo_floats value, int64_t lanes, int narrow)
{
    uint16_t halves[KOLO_LANES];
    if (narrow) kolo_narrow(value, narrow, halves);
    if (narrow) memcpy((uint16_t *)to + at, halves, (size_t)lanes * sizeof(uint16_t));
    else memcpy((float *)to + at, &value, (size_t)lanes * sizeof(float));
}

/* The same for loops to the end of a row, where fewer than sixteen elements may be left. A count of sixteen is passed
 * on as a constant. */
KOLO_INLINE kolo_floats kolo_get_some(const void *from, int64_t at, int64_t lanes, int narrow)
{
    return lanes == KOLO_LANES ? kolo_get(from, at, KOLO_LANES, narrow) : kolo_get(from, at, lanes, narrow);
}
KOLO_INLINE void kolo_put_some(void *to, int64_t at, kolo_floats value, int64_t lanes, int narrow)
{
    if (lanes == KOLO_LANES) kolo_put(to, at, value, KOLO_LANES, narrow);
    else kolo_put(to, at, value, lanes, narrow);
}
/* The number of lanes in use from element `at` of `count` on. */
KOLO_INLINE int64_t kolo_lanes_at(int64_t at, int64_t count)
{
    return count - at < KOLO_LANES ? count - at : KOLO_LANES;
}
/* Sets the elements beyond the first `lanes` to zero. */
KOLO_INLINE kolo_floats kolo_only(kolo_floats x, int64_t lanes)
{
    const kolo_ints number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return lanes == KOLO_LANES ? x : (kolo_floats)((kolo_ints)x & (number < (int32_t)lanes));
}
/* The sum of all lanes, always added in the same order. */
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
    enum { at_once = 4 * KOLO_LANES }; /* separate maxima, which do not wait for each other */
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

/* `yes` in the lanes where the mask is all ones, `no` where it is all zeros. */
KOLO_INLINE kolo_floats kolo_select_floats(kolo_ints mask, kolo_floats yes, kolo_floats no)
{
    return (kolo_floats)((mask & (kolo_ints)yes) | (~mask & (kolo_ints)no));
}
KOLO_INLINE kolo_ints kolo_select_ints(kolo_ints mask, kolo_ints yes, kolo_ints no)
{
    return (mask & yes) | (~mask & no);
}

#endif
