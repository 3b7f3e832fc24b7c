/* bfloat16 in loops of our own: the upper half of a float32. */
#ifndef KOLO_ONEDNN_BFLOAT16_H
#define KOLO_ONEDNN_BFLOAT16_H

#include <stdint.h>
#include <string.h>

#define KOLO_INLINE static inline __attribute__((always_inline))

KOLO_INLINE float kolo_bfloat16_widen(uint16_t narrow)
{
    uint32_t bits = (uint32_t)narrow << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* The nearest, of two as near the even one; NaN stays NaN. */
KOLO_INLINE uint16_t kolo_bfloat16_narrow(float wide)
{
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)(wide != wide ? 0x7FC0u : rounded);
}

/* Element i of an array of either type. The type is a constant wherever these are inlined. */
KOLO_INLINE float kolo_get(const void *from, int64_t i, int is_bfloat16)
{
    return is_bfloat16 ? kolo_bfloat16_widen(((const uint16_t *)from)[i]) : ((const float *)from)[i];
}
KOLO_INLINE void kolo_put(void *to, int64_t i, float value, int is_bfloat16)
{
    if (is_bfloat16) ((uint16_t *)to)[i] = kolo_bfloat16_narrow(value);
    if (!is_bfloat16) ((float *)to)[i] = value;
}

#endif
