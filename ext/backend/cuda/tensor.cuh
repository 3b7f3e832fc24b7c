/* Tensor cores, of Ampere and later: squares of narrow elements in shared memory to registers, and their products, sums
 * in float. What a lane has of a square is what PTX says of ldmatrix and mma.m16n8k16 (PTX ISA, 9.7.15.5):
 *
 * A is 16 × 16 (m × k), four squares of 8 × 8, top left, bottom left, top right, bottom right; B is 16 × 8 (k × n), two,
 * top and bottom. Lane l has of each square of A row l / 4, elements 2 (l % 4) and the next; of B's column l / 4, those
 * rows. Of a sum, 16 × 8, it has row l / 4, columns 2 (l % 4) and the next, then the same of row l / 4 + 8. */
#ifndef KOLO_CUDA_TENSOR_CUH
#define KOLO_CUDA_TENSOR_CUH

#include "backend/cuda/device.cuh"
#ifdef KOLO_SHIM
#include "tensor.h"
#endif

namespace kolo {

/* Four squares: lanes 8 i … 8 i + 7 give the addresses of the rows of square i, sixteen bytes each, in shared memory.
 * turned: of their transposes. */
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
#endif
}

/* sums += a · b */
__device__ static inline void multiply(float sums[4], const unsigned a[4], const unsigned b[2], __nv_bfloat16)
{
#ifdef KOLO_SHIM
    kolo_shim_multiply<__nv_bfloat16>(sums, a, b);
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
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
#endif
}

/* 16 × 16 of A (m × k), and of B (k × n), which is two of 16 × 8: from the element in the corner of a tile whose rows
 * are `ld` apart, in which neighbours are neighbours in k, or else in m or n. */
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
