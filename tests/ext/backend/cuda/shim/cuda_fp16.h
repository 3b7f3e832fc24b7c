/* binary16 as CUDA's header has it, of what our kernels use. See cuda_runtime.h here. */
#ifndef KOLO_SHIM_CUDA_FP16_H
#define KOLO_SHIM_CUDA_FP16_H
#include <stdint.h>
#include <string.h>
struct __half {
    _Float16 value;
};
static inline float __half2float(__half value)
{
    return (float)value.value;
}
/* All NaNs are one, without a sign. */
static inline __half __float2half_rn(float value)
{
    __half result = {(_Float16)value};
    const uint16_t none = 0x7FFF;
    if (value != value) memcpy(&result, &none, sizeof result);
    return result;
}
#endif
