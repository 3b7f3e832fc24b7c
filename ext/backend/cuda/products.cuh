/* Products of tiles in shared memory on tensor cores, in each precision. A warp multiplies 16 rows by 8 columns at a
 * time, K elements in a step, and adds to sums of floats. tensor.cuh says which elements a lane has. */
#ifndef KOLO_CUDA_PRODUCTS_CUH
#define KOLO_CUDA_PRODUCTS_CUH

#include "backend/cuda/tensor.cuh"

namespace kolo {

/* How products are computed. OfNarrow: of bfloat16s or halves. OfTf32: of floats rounded to TF32 (10 bits behind the
 * point). OfFloat: of floats, each as the sum of two TF32s; the three large ones of the four products are taken, which
 * gives about 22 bits. */
template <typename T_> struct OfNarrow {
    typedef T_ T;
    static const int K = 16;
};
struct OfTf32 {
    typedef float T;
    static const int K = 8;
};
struct OfFloat {
    typedef float T;
    static const int K = 8;
};

/* A lane's part of a 16 × K and of a K × 8 matrix. */
struct Left {
    unsigned at[4];
};
struct Right {
    unsigned at[2];
};

template <typename To, typename From> __device__ static inline To same_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits are kept");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

template <typename T> __device__ static inline unsigned pack(float low, float high)
{
    Run<T, 2> two;
    narrow(low, &two.at[0]);
    narrow(high, &two.at[1]);
    return same_bits<unsigned>(two);
}

/* ---- sums += a · b ---- */

template <typename T> __device__ static inline void multiply(OfNarrow<T>, float sums[4], const Left &a, const Right &b)
{
    multiply(sums, a.at, b.at, T());
}

template <typename Words> __device__ static inline Words rounded(const Words &words)
{
    Words to;
    for (size_t i = 0; i < sizeof to.at / sizeof *to.at; i++) to.at[i] = to_tf32(same_bits<float>(words.at[i]));
    return to;
}
template <typename Words> __device__ static inline Words rest_of(const Words &words, const Words &large)
{
    Words to;
    for (size_t i = 0; i < sizeof to.at / sizeof *to.at; i++)
        to.at[i] = to_tf32(same_bits<float>(words.at[i]) - same_bits<float>(large.at[i]));
    return to;
}
__device__ static inline void multiply(OfTf32, float sums[4], const Left &a, const Right &b)
{
    multiply_tf32(sums, rounded(a).at, rounded(b).at);
}
/* The small products come first, as they would be lost in a large sum. Tensor cores truncate what a sum has no bits
 * for, so that a long sum would come out too small. Therefore each result is added here, rounded to the nearest (Ootomo
 * and Yokota 2022, "Recovering single precision accuracy from Tensor Cores"). */
__device__ static inline void multiply(OfFloat, float sums[4], const Left &a, const Right &b)
{
    Left large_a = rounded(a), small_a = rest_of(a, large_a);
    Right large_b = rounded(b), small_b = rest_of(b, large_b);
    float found[4] = {0};
    multiply_tf32(found, small_a.at, large_b.at);
    multiply_tf32(found, large_a.at, small_b.at);
    multiply_tf32(found, large_a.at, large_b.at);
    for (int i = 0; i < 4; i++) sums[i] += found[i];
}

/* ---- parts of matrices in shared memory. Rows are `stride` apart: an odd number of 16 bytes (for floats, 16 bytes
 * more than a multiple of 128), so that no two lanes want the same bank ---- */

/* 16 rows of K elements, as a left matrix. */
template <typename T> __device__ static inline Left load_left(OfNarrow<T>, const T *x, int stride)
{
    Left a;
    load_a<true>(x, stride, a.at);
    return a;
}
/* 16 rows of K elements, each as a column of one of two right matrices. */
template <typename T> __device__ static inline void load_rows(OfNarrow<T>, Right b[2], const T *x, int stride)
{
    unsigned words[2][2];
    load_b<true>(x, stride, words);
    b[0] = {words[0][0], words[0][1]};
    b[1] = {words[1][0], words[1][1]};
}
/* K rows of 16 elements, as two right matrices side by side. Their rows are in the order of left_of_sums()'s
 * columns. */
template <typename T> __device__ static inline void load_columns(OfNarrow<T>, Right b[2], const T *x, int stride)
{
    unsigned words[2][2];
    load_b<false>(x, stride, words);
    b[0] = {words[0][0], words[0][1]};
    b[1] = {words[1][0], words[1][1]};
}
/* Columns K k … K k + K − 1 of a product's sums, as a left matrix. */
template <typename T> __device__ static inline Left left_of_sums(OfNarrow<T>, const float sums[][4], int k)
{
    const float *x = sums[2 * k], *y = sums[2 * k + 1];
    return {pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), pack<T>(y[0], y[1]), pack<T>(y[2], y[3])};
}

template <typename Math> __device__ static inline Left load_left(Math, const float *x, int stride)
{
    int lane = (int)(threadIdx.x % 32);
    x += lane / 4 * stride + lane % 4;
    return {same_bits<unsigned>(x[0]), same_bits<unsigned>(x[8 * stride]), same_bits<unsigned>(x[4]),
            same_bits<unsigned>(x[8 * stride + 4])};
}
template <typename Math> __device__ static inline void load_rows(Math, Right b[2], const float *x, int stride)
{
    int lane = (int)(threadIdx.x % 32);
    x += lane / 4 * stride + lane % 4;
    b[0] = {same_bits<unsigned>(x[0]), same_bits<unsigned>(x[4])};
    b[1] = {same_bits<unsigned>(x[8 * stride]), same_bits<unsigned>(x[8 * stride + 4])};
}
/* Of floats, a lane has columns 2 i and 2 i + 1 of the sums, where a left matrix has columns i and i + 4. The rows of
 * the right matrices are permuted in the same way. */
template <typename Math> __device__ static inline void load_columns(Math, Right b[2], const float *x, int stride)
{
    int lane = (int)(threadIdx.x % 32);
    x += lane % 4 * 2 * stride + lane / 4;
    b[0] = {same_bits<unsigned>(x[0]), same_bits<unsigned>(x[stride])};
    b[1] = {same_bits<unsigned>(x[8]), same_bits<unsigned>(x[stride + 8])};
}
template <typename Math> __device__ static inline Left left_of_sums(Math, const float sums[][4], int k)
{
    const float *x = sums[k];
    return {same_bits<unsigned>(x[0]), same_bits<unsigned>(x[2]), same_bits<unsigned>(x[1]), same_bits<unsigned>(x[3])};
}

} // namespace kolo

#endif
