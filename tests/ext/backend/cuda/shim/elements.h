/* Elements of arrays whose type is known when the program runs, as the shims of cuBLASLt and cuDNN need them. */
#ifndef KOLO_SHIM_ELEMENTS_H
#define KOLO_SHIM_ELEMENTS_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "library_types.h"

#include <cstddef>
#include <cstdint>

void kolo_shim_came(void *to, const void *from, size_t bytes); /* blocks.h */

static inline size_t kolo_shim_size(int type)
{
    return type == CUDA_R_32F ? 4 : 2;
}
static inline float kolo_shim_element(int type, const void *array, int64_t i)
{
    if (type == CUDA_R_16F) return __half2float(((const __half *)array)[i]);
    return type == CUDA_R_16BF ? __bfloat162float(((const __nv_bfloat16 *)array)[i]) : ((const float *)array)[i];
}
static inline void kolo_shim_set_element(int type, void *array, int64_t i, float value)
{
    kolo_shim_came((char *)array + (size_t)i * kolo_shim_size(type), nullptr, kolo_shim_size(type));
    if (type == CUDA_R_16F) ((__half *)array)[i] = __float2half_rn(value);
    else if (type == CUDA_R_16BF) ((__nv_bfloat16 *)array)[i] = __float2bfloat16_rn(value);
    else ((float *)array)[i] = value;
}
/* To 10 bits of fraction, to the nearest, of two as near away from zero. */
static inline float kolo_shim_tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7F800000u) != 0x7F800000u) bits = (bits + 0x1000) & ~0x1FFFu;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

#endif
