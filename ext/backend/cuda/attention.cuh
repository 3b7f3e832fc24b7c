/* The common part of attention and its gradient: tiles of one head in shared memory, their products, the causal mask
 * and the dropout. The formulas are in backend/reference/attention.c; attention.cu says how they are computed here. */
#ifndef KOLO_CUDA_ATTENTION_CUH
#define KOLO_CUDA_ATTENTION_CUH

#include "backend/cuda/products.cuh"
#include "core/philox.h"

namespace kolo
{

/* The shape of a block's tiles. A block has OWN rows of a head, 16 per warp: queries, or in the gradient also keys. It
 * goes through the rows of the other kind SOME at a time. SIZE: the head's size, rounded up. STRIDE: elements from row
 * to row in shared memory. */
template <typename Math_, int SIZE_, int SOME_> struct Tiles {
    typedef Math_ Math;
    typedef typename Math_::T T;
    static const int SIZE = SIZE_, SOME = SOME_, STRIDE = SIZE + 16 / (int)sizeof(T);
    static const int WARPS = sizeof(T) == 4 && SIZE == 256 ? 2 : 4, OWN = 16 * WARPS, THREADS = 32 * WARPS;
    static const int MASK = OWN * SOME; /* bytes of a tile's dropout mask */
};

/* One head of one sample. */
struct Head {
    int64_t at; /* its number among all heads of the microbatch */
    int sample, number;
};
__device__ static inline Head head_of(const kolo_attention_job &job, int64_t number)
{
    return {number, (int)(number / job.heads), (int)(number % job.heads)};
}

/* ---- tiles ---- */

/* Copies rows first … first+rows-1 of a head to shared memory. In `from`, a sample's rows are `wide` elements apart.
 * Rows behind job.length and columns behind job.size become zeros. */
template <typename Shape, typename T>
__device__ static void bring(const kolo_attention_job &job, T *to, const T *from, int64_t wide, int first, int rows)
{
    const int N = Lanes<T>::count, PARTS = Shape::SIZE / N;
    bool aligned = job.size % N == 0;
    for (int i = (int)threadIdx.x; i < rows * PARTS; i += Shape::THREADS) {
        int row = i / PARTS, column = i % PARTS * N, left = job.size - column;
        const T *x = from + (first + row) * wide + column;
        Run<T, N> run;
        for (int k = 0; k < N; k++) narrow(0, &run.at[k]);
        if (first + row < job.length && left > 0) {
            if (aligned) run = *checked<Run<T, N>>(x);
            else
                for (int k = 0; k < N; k++)
                    if (k < left) run.at[k] = x[k];
        }
        *(Run<T, N> *)checked<Run<T, N>>(to + row * Shape::STRIDE + column) = run;
    }
}

/* sums = own · someᵀ for the warp's rows. For floats the loop is not unrolled, which would need twice the registers. */
template <typename Shape, typename T>
__device__ static void multiply_rows(float sums[Shape::SOME / 8][4], const T *own, const T *some)
{
    typename Shape::Math math;
#pragma unroll
    for (int j = 0; j < Shape::SOME / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[j][i] = 0;
#pragma unroll(sizeof(T) == 4 ? 1 : Shape::SIZE / Shape::Math::K)
    for (int k = 0; k < Shape::SIZE; k += Shape::Math::K) {
        Left a = load_left(math, own + k, Shape::STRIDE);
#pragma unroll
        for (int j = 0; j < Shape::SOME / 8; j += 2) {
            Right b[2];
            load_rows(math, b, some + j * 8 * Shape::STRIDE + k, Shape::STRIDE);
            multiply(math, sums[j], a, b[0]);
            multiply(math, sums[j + 1], a, b[1]);
        }
    }
}

/* sums += weights · some, for WIDTH columns of `some`. */
template <typename Shape, int WIDTH, typename T>
__device__ static void multiply_columns(float sums[WIDTH / 8][4], const float weights[Shape::SOME / 8][4],
                                        const T *some)
{
    typename Shape::Math math;
#pragma unroll
    for (int k = 0; k < Shape::SOME / Shape::Math::K; k++) {
        Left a = left_of_sums(math, weights, k);
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j += 2) {
            Right b[2];
            load_columns(math, b, some + k * Shape::Math::K * Shape::STRIDE + j * 8, Shape::STRIDE);
            multiply(math, sums[j], a, b[0]);
            multiply(math, sums[j + 1], a, b[1]);
        }
    }
}

/* Writes the warp's rows of sums, times the factor of each of a lane's two rows, to rows `first` and on, columns
 * `from_column` and on. The rows of `to` are `wide` elements apart. */
template <int WIDTH, typename T>
__device__ static void put_rows(const kolo_attention_job &job, T *to, int64_t wide, int first, int from_column,
                                const float sums[WIDTH / 8][4], const float factor[2])
{
    int lane = (int)(threadIdx.x % 32);
    bool even = job.size % 2 == 0;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int row = first + lane / 4 + 8 * r;
        if (row >= job.length) continue;
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j++) {
            int column = from_column + 8 * j + lane % 4 * 2;
            float two[2] = {sums[j][2 * r] * factor[r], sums[j][2 * r + 1] * factor[r]};
            if (even && column < job.size) store<T, 2>(to + row * wide + column, two);
            for (int k = 0; k < 2 && !even; k++)
                if (column + k < job.size) narrow(two[k], &to[row * wide + column + k]);
        }
    }
}

/* ---- weights ---- */

__device__ static inline bool sees(const kolo_attention_job &job, int query, int key)
{
    return query < job.length && key < job.length && (!job.causal || key <= query);
}

/* Which weights the dropout keeps, as bytes kept[queries][keys]. A weight is element (head · length + query) · length +
 * key of the sample; four elements share a Philox block. */
template <typename Shape>
__device__ static void draw(const kolo_attention_job &job, const kolo_step_parameters *step_parameters,
                            const Head &head, uint8_t *kept, int query, int queries, int key, int keys)
{
    uint64_t philox_key = kolo_dropout_key(step_parameters->seed, job.layer, step_parameters->step);
    int fours = keys / 4 + 1;
    for (int i = (int)threadIdx.x; i < queries * fours; i += Shape::THREADS) {
        int row = i / fours;
        uint64_t first = ((uint64_t)head.number * job.length + (query + row)) * job.length + key;
        uint64_t four = first / 4 + i % fours;
        kolo_random_block bits = kolo_philox(philox_key, four, (uint64_t)(job.first + head.sample));
        for (int k = 0; k < 4; k++) {
            int64_t column = (int64_t)(4 * four + k - first);
            if (column >= 0 && column < keys) kept[row * keys + column] = bits.word[k] >= job.threshold;
        }
    }
}

/* ---- launching ---- */

template <typename Kernel, typename... Arguments>
static cudaError_t launch_tiles(cudaStream_t stream, int64_t blocks, int threads, size_t shared, Kernel kernel,
                                Arguments... arguments)
{
    return launch_large(stream, dim3((unsigned)blocks), dim3((unsigned)threads), shared, kernel, arguments...);
}

/* Calls f(math, std::integral_constant<int, size>): the precision and the head's size, rounded up, as types. */
template <typename Math, typename F> static cudaError_t with_size(int size, F f)
{
    if (size <= 32) return f(Math(), std::integral_constant<int, 32>());
    if (size <= 64) return f(Math(), std::integral_constant<int, 64>());
    if (size <= 128) return f(Math(), std::integral_constant<int, 128>());
    return size <= 256 ? f(Math(), std::integral_constant<int, 256>()) : cudaErrorInvalidValue;
}
template <typename F> static cudaError_t with_math(kolo_element element, const kolo_attention_job *job, F f)
{
    switch (element) {
    case KOLO_ELEMENT_BFLOAT16: return with_size<OfNarrow<__nv_bfloat16>>(job->size, f);
    case KOLO_ELEMENT_HALF: return with_size<OfNarrow<__half>>(job->size, f);
    default: return job->tf32 ? with_size<OfTf32>(job->size, f) : with_size<OfFloat>(job->size, f);
    }
}

} // namespace kolo

#endif
