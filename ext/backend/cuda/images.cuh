/* The common part of kernels over images and of norms: runs of V neighbouring channels, and divisions that find their
 * place in the microbatch. */
#ifndef KOLO_CUDA_IMAGES_CUH
#define KOLO_CUDA_IMAGES_CUH

#include <type_traits>

#include "backend/cuda/device.cuh"

namespace kolo
{

/* Element v of a run as a float. A bfloat16 is cut out of its 32-bit word: a run of separate elements would fill twice
 * the registers. */
template <typename T, int N> __device__ static inline float element(const Run<T, N> &run, int v)
{
    return wide(run.at[v]);
}
template <int N> __device__ static inline float element(const Run<__nv_bfloat16, N> &run, int v)
{
    if constexpr (N == 1) return wide(run.at[v]);
    uint32_t word;
    float value;
    memcpy(&word, (const char *)&run + v / 2 * 4, sizeof word);
    word = v % 2 ? word & 0xFFFF0000u : word << 16;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* n / d by a multiplication, for n below 2^31 (Granlund and Montgomery 1994): (⌊m n / 2^32⌋ + n) >> s, with
 * s = ⌈log2 d⌉ and m = ⌊2^32 (2^s − d) / d⌋ + 1. */
struct Divisor {
    uint32_t d, factor, shift;
    Divisor() = default;
    explicit Divisor(int64_t divisor) : d((uint32_t)divisor), factor(0), shift(0)
    {
        while (((uint64_t)1 << shift) < d) shift++;
        factor = (uint32_t)(((((uint64_t)1 << shift) - d) << 32) / d + 1);
    }
    __device__ uint32_t of(uint32_t n) const
    {
        return ((uint32_t)((uint64_t)n * factor >> 32) + n) >> shift;
    }
};

/* Calls f(first, samples) for parts of a microbatch, such that a kernel can count a part's units, `units` per sample,
 * with 31 bits. */
template <typename F> static cudaError_t by_parts(int64_t samples, int64_t units, F f)
{
    int64_t most = units > 0 && units < INT32_MAX ? INT32_MAX / units : 1;
    for (int64_t first = 0; first < samples; first += most) {
        cudaError_t error = f(first, samples - first < most ? samples - first : most);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

/* Calls f with the number of channels that a thread takes, a std::integral_constant: sixteen bytes of them, two narrow
 * ones, or one. */
template <typename T, typename F> static cudaError_t with_lanes(int channels, F f)
{
    if (channels % Lanes<T>::count == 0) return f(std::integral_constant<int, Lanes<T>::count>());
    if constexpr (sizeof(T) == 2)
        if (channels % 2 == 0) return f(std::integral_constant<int, 2>());
    return f(std::integral_constant<int, 1>());
}

} // namespace kolo

#endif
