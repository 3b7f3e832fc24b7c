/* IEEE 754 binary16 ("half", KOLO_MIXED_FP16) for machines that cannot compute with it: rounds float32 values to
 * values that a half can represent. It computes with the bits as integers, so that the same loop serves every
 * CPU: sixteen elements at a time on AVX-512. The hardware (F16C) can only round by converting to half and back. */
#include "backend/backend.h"
#include "core/vector.h"

#include <string.h>

/* Rounds to the nearest half, ties to even. Magnitudes of 65520 and more become infinity; NaN stays NaN.
 *
 * From 2^-14 on a half has 10 bits of fraction, so 13 of a float32's 23 are rounded off. Below 2^-14 halves are
 * multiples of 2^-24. A float32 sum with 0.5 is rounded to such a multiple, so 0.5 is added and subtracted again. */
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
