/* IEEE 754 binary16 ("half", KOLO_MIXED_FP16) for machines that cannot compute with it: float32 values rounded to what
 * a half can hold. By integers, so that the same loop serves every CPU, sixteen elements at a time on AVX-512; one that
 * converts in hardware (F16C) has no rounding without the conversion there and back. */
#include "backend/backend.h"
#include "core/vector.h"

#include <string.h>

/* To the nearest half, of two as near the even one; past 65504 + 16 to infinity; NaN stays NaN.
 *
 * From 2^-14 on a half has 10 bits behind the point: 13 of a float32's 23 go. Below it halves are multiples of 2^-24,
 * which is what a sum with 0.5 leaves of a number. */
static inline __attribute__((always_inline)) float nearest_half(float value)
{
    uint32_t bits, size, sign, small_bits;
    memcpy(&bits, &value, sizeof bits);
    sign = bits & 0x80000000u;
    size = bits & 0x7FFFFFFFu;
    float small = __builtin_fabsf(value) + 0.5f;
    small -= 0.5f;
    memcpy(&small_bits, &small, sizeof small_bits);
    uint32_t normal = (size + 0xFFFu + (size >> 13 & 1u)) & ~0x1FFFu;
    normal = normal >= 0x47800000u ? 0x7F800000u : normal;
    uint32_t rounded = size < 0x38800000u ? small_bits : normal;
    rounded = size > 0x7F800000u ? size : rounded;
    rounded |= sign;
    memcpy(&value, &rounded, sizeof value);
    return value;
}

KOLO_VECTORISED void kolo_host_round_half(float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) values[i] = nearest_half(values[i]);
}

float kolo_nearest_half(float value)
{
    return nearest_half(value);
}
