/* bfloat16 as CUDA's header has it, of what our kernels use. See cuda_runtime.h here. */
#ifndef KOLO_SHIM_CUDA_BF16_H
#define KOLO_SHIM_CUDA_BF16_H
#include <stdint.h>
#include <string.h>
struct __nv_bfloat16 {
    uint16_t bits;
};
static inline float __bfloat162float(__nv_bfloat16 value)
{
    uint32_t wide = (uint32_t)value.bits << 16;
    float result;
    memcpy(&result, &wide, sizeof result);
    return result;
}
/* The nearest, of two as near the even one. */
static inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return __nv_bfloat16{0x7FFF};
    return __nv_bfloat16{(uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
#endif
