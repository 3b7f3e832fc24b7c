/* Tensor cores: they load squares of narrow elements from shared memory into registers, and multiply these with sums in
 * float. Before Ampere (a V100, a T4) the instruction for products is missing, and lanes exchange elements by shuffles
 * instead. The elements that a lane has are those of ldmatrix and mma.m16n8k16 (PTX ISA, 9.7.15.5):
 *
 * A is 16 × 16 (m × k): four squares of 8 × 8, top left, bottom left, top right, bottom right. B is 16 × 8 (k × n): two
 * squares, top and bottom. Of each square of A, lane l has row l / 4, elements 2 (l % 4) and the next. Of each square
 * of B it has column l / 4, rows 2 (l % 4) and the next. Of the sums, 16 × 8, it has row l / 4, columns 2 (l % 4) and
 * the next, then the same columns of row l / 4 + 8. */
#ifndef KOLO_CUDA_TENSOR_CUH
#define KOLO_CUDA_TENSOR_CUH

#include "backend/cuda/device.cuh"

#include <cuda_pipeline.h>
#ifdef KOLO_SHIM
#include "tensor.h"
#endif

namespace kolo {

#if !defined(KOLO_SHIM) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800)
/* The sum of the products of the elements in two words. */
template <typename T> __device__ static inline float dot_words(unsigned a, unsigned b)
{
    Run<T, 2> x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return wide(x.at[0]) * wide(y.at[0]) + wide(x.at[1]) * wide(y.at[1]);
}
template <> __device__ inline float dot_words<float>(unsigned a, unsigned b)
{
    return __uint_as_float(a) * __uint_as_float(b);
}

template <typename T> __device__ __noinline__ static void multiply_by_hand(float sums[4], const unsigned a[4], const unsigned b[2])
{
    int lane = (int)(threadIdx.x % 32), row = lane / 4 * 4, column = lane % 4 * 8;
    for (int q = 0; q < 4; q++) {
        unsigned x[4], y[4];
        for (int i = 0; i < 4; i++) {
            x[i] = __shfl_sync(0xFFFFFFFFu, a[i], row + q);
            y[i] = __shfl_sync(0xFFFFFFFFu, b[i / 2], column + i % 2 * 4 + q);
        }
        for (int i = 0; i < 4; i++) /* row i / 2, column i % 2 */
            sums[i] += dot_words<T>(x[i / 2], y[i % 2]) + dot_words<T>(x[i / 2 + 2], y[i % 2 + 2]);
    }
}

__device__ __noinline__ static void load_by_hand(const void *row, unsigned squares[4], bool turned)
{
    int lane = (int)(threadIdx.x % 32), at = lane / 4, pair = lane % 4 * 2;
    for (int s = 0; s < 4; s++) {
        unsigned long long first = __shfl_sync(0xFFFFFFFFu, (unsigned long long)row, 8 * s + (turned ? pair : at));
        unsigned long long second = __shfl_sync(0xFFFFFFFFu, (unsigned long long)row, 8 * s + (turned ? pair + 1 : at));
        unsigned low = ((const uint16_t *)first)[turned ? at : pair];
        squares[s] = low | (unsigned)((const uint16_t *)second)[turned ? at : pair + 1] << 16;
    }
}
#endif

/* Starts copying sixteen bytes to shared memory, or zeros if not `there`; `from` must be a valid address in any case.
 * The number of bytes to read is in a register: for __pipeline_memcpy_async() with such a number nvcc makes two
 * instructions, of which one is skipped. */
template <typename T> __device__ static inline void copy(T *shared, const T *from, bool there)
{
#if !defined(KOLO_SHIM) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                 "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
                 : "memory");
#else
    __pipeline_memcpy_async(shared, from, 16, there ? 0 : 16);
#endif
}

/* Loads four squares. Lanes 8 i … 8 i + 7 pass the addresses of the rows of square i, sixteen bytes each, in shared
 * memory. turned: loads their transposes. */
template <bool turned, typename T> __device__ static inline void load_squares(const T *row, unsigned squares[4])
{
#ifdef KOLO_SHIM
    kolo_shim_load_squares(row, squares, turned);
#elif __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(row);
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(squares[0]), "=r"(squares[1]), "=r"(squares[2]), "=r"(squares[3])
                     : "r"(address));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(squares[0]), "=r"(squares[1]), "=r"(squares[2]), "=r"(squares[3])
                     : "r"(address));
#else
    load_by_hand(row, squares, turned);
#endif
}

/* sums += a · b. It is volatile, as all lanes of a warp must execute it together: the compiler must not move it into a
 * branch that some lanes do not take. */
__device__ static inline void multiply(float sums[4], const unsigned a[4], const unsigned b[2], __nv_bfloat16)
{
#ifdef KOLO_SHIM
    kolo_shim_multiply<__nv_bfloat16>(sums, a, b);
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    multiply_by_hand<__nv_bfloat16>(sums, a, b);
#endif
}
__device__ static inline void multiply(float sums[4], const unsigned a[4], const unsigned b[2], __half)
{
#ifdef KOLO_SHIM
    kolo_shim_multiply<__half>(sums, a, b);
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    multiply_by_hand<__half>(sums, a, b);
#endif
}

/* The same for floats, of which the tensor cores read 10 bits behind the point (TF32), and for 8 elements of k. Of A,
 * 16 × 8, lane l has rows l / 4 and l / 4 + 8 of column l % 4, then of column l % 4 + 4. Of B, 8 × 8, it has rows l % 4
 * and l % 4 + 4 of column l / 4. */
__device__ static inline void multiply_tf32(float sums[4], const unsigned a[4], const unsigned b[2])
{
#ifdef KOLO_SHIM
    kolo_shim_multiply_tf32(sums, a, b);
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    multiply_by_hand<float>(sums, a, b);
#endif
}

/* The nearest TF32; of two as near, that of larger magnitude. */
__device__ static inline unsigned to_tf32(float value)
{
    unsigned bits;
#if !defined(KOLO_SHIM) && __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#else
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7F800000u) != 0x7F800000u) bits = (bits + 0x1000u) & ~0x1FFFu;
#endif
    return bits;
}

/* Loads 16 × 16 elements of A (m × k), or of B (k × n), which is two matrices of 16 × 8. corner: the first element, in
 * a tile whose rows are `ld` apart. along_k: neighbours in a row of the tile are neighbours in k; else in m or n. */
template <bool along_k, typename T> __device__ static inline void load_a(const T *corner, int ld, unsigned a[4])
{
    int lane = (int)threadIdx.x % 32, square = lane / 8, row = lane % 8;
    int m = square % 2 * 8, k = square / 2 * 8;
    load_squares<!along_k>(corner + (along_k ? (m + row) * ld + k : (k + row) * ld + m), a);
}
template <bool along_k, typename T> __device__ static inline void load_b(const T *corner, int ld, unsigned b[2][2])
{
    int lane = (int)threadIdx.x % 32, square = lane / 8, row = lane % 8;
    int n = square / 2 * 8, k = square % 2 * 8;
    load_squares<!along_k>(corner + (along_k ? (n + row) * ld + k : (k + row) * ld + n), b[0]);
}

} // namespace kolo

#endif
