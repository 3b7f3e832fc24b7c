/* Attention without a stored matrix of weights (Dao 2023, "FlashAttention-2"). A block has some queries of one head and
 * goes through the keys and values tile by tile. For each query it keeps the largest score m so far and two sums, Σ
 * exp(s − m) and Σ exp(s − m)·v, which are scaled down when a tile has a larger score. Tensor cores compute the
 * products in the activations' element, to which the weights are rounded; all else is float. For the backward pass m
 * (as an exponent of 2), 1 / Σ exp(s − m) and y before rounding are kept: the gradient needs y in a difference of
 * nearly equal numbers. */
#include <type_traits>

#include "backend/cuda/attention.cuh"

namespace kolo
{

/* Keys of one tile. */
template <typename T> constexpr int keys_at_once(int size)
{
    return (sizeof(T) == 4 ? 32 : 64) / (size == 256 ? 2 : 1);
}

/* A lane's state of its two rows. */
struct Rows {
    float largest[2], sum[2]; /* sum: over this lane's columns only */
};

/* Replaces the scores by exp(s − m), and rescales the sums so far, of WIDTH columns, to the same m. */
template <typename Shape, int WIDTH>
__device__ static void soften(const kolo_attention_job &job, float scores[Shape::SOME / 8][4], Rows &rows,
                              float sums[WIDTH / 8][4], int query, int key)
{
    int lane = (int)(threadIdx.x % 32);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float largest = rows.largest[r], sum = 0;
#pragma unroll
        for (int j = 0; j < Shape::SOME / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &score = scores[j][2 * r + e];
                if (!sees(job, query + lane / 4 + 8 * r, key + 8 * j + lane % 4 * 2 + e)) score = -INFINITY;
                largest = fmaxf(largest, score);
            }
        for (int by = 1; by < 4; by *= 2) largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, by));
        float down = largest == -INFINITY ? 1 : exp2f((rows.largest[r] - largest) * job.scale);
        float zero = largest == -INFINITY ? 0 : largest * job.scale;
#pragma unroll
        for (int j = 0; j < Shape::SOME / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &score = scores[j][2 * r + e];
                score = exp2f(fmaf(score, job.scale, -zero));
                sum += score;
            }
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) sums[j][2 * r + e] *= down;
        rows.sum[r] = rows.sum[r] * down + sum;
        rows.largest[r] = largest;
    }
}

template <typename Shape> __device__ static void drop(float weights[Shape::SOME / 8][4], const uint8_t *kept)
{
    int lane = (int)(threadIdx.x % 32), row = (int)(threadIdx.x / 32) * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < Shape::SOME / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!kept[(row + 8 * (i / 2)) * Shape::SOME + 8 * j + lane % 4 * 2 + i % 2]) weights[j][i] = 0;
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::THREADS)
    attend(const __grid_constant__ kolo_attention_job job, const kolo_step_parameters *step_parameters,
           const typename Shape::T *qkv, typename Shape::T *y, float *kept_sums, float *exact)
{
    typedef typename Shape::T T;
    KOLO_SHARED_BYTES(shared);
    T *queries = (T *)shared, *keys = queries + Shape::OWN * Shape::STRIDE,
      *values = keys + Shape::SOME * Shape::STRIDE;
    uint8_t *kept = (uint8_t *)(values + Shape::SOME * Shape::STRIDE);
    int tiles = (job.length + Shape::OWN - 1) / Shape::OWN, query = (int)(blockIdx.x % tiles) * Shape::OWN;
    Head head = head_of(job, blockIdx.x / tiles);
    int64_t all = (int64_t)job.heads * job.size, wide = 3 * all;
    const T *q = qkv + head.sample * (job.length * wide) + head.number * job.size;
    int warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32), own = query + 16 * warp;
    int end = job.causal && query + Shape::OWN < job.length ? query + Shape::OWN : job.length;
    bring<Shape>(job, queries, q, wide, query, Shape::OWN);
    float sums[Shape::SIZE / 8][4] = {{0}};
    Rows rows = {{-INFINITY, -INFINITY}, {0, 0}};
    for (int key = 0; key < end; key += Shape::SOME) {
        float weights[Shape::SOME / 8][4];
        __syncthreads();
        bring<Shape>(job, keys, q + all, wide, key, Shape::SOME);
        bring<Shape>(job, values, q + 2 * all, wide, key, Shape::SOME);
        if (job.threshold > 0) draw<Shape>(job, step_parameters, head, kept, query, Shape::OWN, key, Shape::SOME);
        __syncthreads();
        multiply_rows<Shape>(weights, queries + 16 * warp * Shape::STRIDE, keys);
        soften<Shape, Shape::SIZE>(job, weights, rows, sums, own, key);
        if (job.threshold > 0) drop<Shape>(weights, kept);
        multiply_columns<Shape, Shape::SIZE>(sums, weights, values);
    }
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        for (int by = 1; by < 4; by *= 2) rows.sum[r] += __shfl_xor_sync(0xFFFFFFFFu, rows.sum[r], by);
        factor[r] = job.keep / rows.sum[r];
        int row = own + lane / 4 + 8 * r;
        if (!kept_sums || lane % 4 > 0 || row >= job.length) continue;
        float two[2] = {rows.largest[r] * job.scale, 1 / rows.sum[r]};
        store<float, 2>(kept_sums + 2 * (head.at * job.length + row), two);
    }
    int64_t to = head.sample * (job.length * all) + head.number * job.size;
    put_rows<Shape::SIZE>(job, y + to, all, own, 0, sums, factor);
    if (exact) put_rows<Shape::SIZE>(job, exact + to, all, own, 0, sums, factor);
}

/* Calls f with the shape of a block's tiles, as a Tiles. */
template <typename F> static cudaError_t with_tiles(kolo_element element, const kolo_attention_job *job, F f)
{
    return with_math(element, job, [&](auto math, auto size) {
        const int SIZE = decltype(size)::value;
        return f(Tiles<decltype(math), SIZE, keys_at_once<typename decltype(math)::T>(SIZE)>());
    });
}

template <typename Shape> static size_t shared_of(const kolo_attention_job *job)
{
    size_t tiles = (Shape::OWN + 2 * Shape::SOME) * Shape::STRIDE * sizeof(typename Shape::T);
    return tiles + (job->threshold > 0 ? Shape::MASK : 0);
}

} // namespace kolo

using namespace kolo;

size_t kolo_cuda_attention_shared(kolo_element element, const kolo_attention_job *job)
{
    size_t bytes = 0;
    with_tiles(element, job, [&](auto tiles) {
        bytes = shared_of<decltype(tiles)>(job);
        return cudaSuccess;
    });
    return bytes;
}

static int64_t sums_of(const kolo_attention_job *job)
{
    return 2 * (int64_t)job->microbatch * job->length * job->heads;
}

size_t kolo_cuda_attention_kept(kolo_element element, const kolo_attention_job *job)
{
    int64_t exact = element == KOLO_ELEMENT_FLOAT ? 0 : sums_of(job) / 2 * job->size;
    return (size_t)(sums_of(job) + exact) * sizeof(float);
}

const float *kolo_cuda_attention_exact(kolo_element element, const kolo_attention_job *job, const void *y,
                                       const float *kept)
{
    return element == KOLO_ELEMENT_FLOAT ? (const float *)y : kept + sums_of(job);
}

cudaError_t kolo_cuda_attention(cudaStream_t stream, kolo_element element, const kolo_attention_job *job,
                                const kolo_step_parameters *step_parameters, const void *qkv, void *y, float *kept)
{
    return with_tiles(element, job, [&](auto of_block) {
        typedef decltype(of_block) Shape;
        typedef typename Shape::T T;
        int64_t tiles = (job->length + Shape::OWN - 1) / Shape::OWN;
        float *exact = kept && sizeof(T) < 4 ? kept + sums_of(job) : NULL;
        return launch_tiles(stream, tiles * job->microbatch * job->heads, Shape::THREADS, shared_of<Shape>(job),
                            attend<Shape>, *job, step_parameters, (const T *)qkv, (T *)y, kept, exact);
    });
}
