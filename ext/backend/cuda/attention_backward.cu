/* The gradient of attention. The weights p are recomputed from the scores and from the numbers that attention.cu kept
 * for each query. Blocks that have queries sum dq, and blocks that have keys sum dk and dv; each recomputes the weights
 * that it needs, so that no sum waits for another block. With m = 0 or 1 / (1 − rate) and δ = Σ p·m·(dy·v) = dy·y:
 *   dv = Σ p·m·dy,  ds = p·(m·(dy·v) − δ),  dq = Σ ds·k / √size,  dk = Σ ds·q / √size. */
#include <type_traits>

#include "backend/cuda/attention.cuh"

namespace kolo
{

/* Rows of the other kind in one tile. */
template <typename T> constexpr int rows_at_once(int size)
{
    return size > (sizeof(T) == 4 ? 64 : 128) ? 16 : 32;
}
/* A block that has keys sums WIDTH columns of dk and dv; PARTS blocks share its keys. */
template <typename Shape> struct Columns {
    static const int WIDTH = Shape::SIZE < 128 ? Shape::SIZE : 128, PARTS = Shape::SIZE / WIDTH;
};

/* For each query, the two numbers that attention.cu kept, and δ. */
struct Known {
    float zero, inverse, delta;
};

template <typename T> struct Gradients {
    const T *dy, *qkv;
    const float *sums, *deltas;
    T *to;
};

__device__ static inline Known known_of(const kolo_attention_job &job, const float *sums, const float *deltas,
                                        const Head &head, int query)
{
    if (query >= job.length) return {0, 0, 0};
    int64_t at = head.at * job.length + query;
    float two[2];
    load<float, 2>(sums + 2 * at, two);
    return {two[0], two[1], deltas[at]};
}

/* Replaces the score of a weight by p·m, and dy·v by ds. */
__device__ static inline void go_back(const kolo_attention_job &job, const Known &known, bool seen, bool stays,
                                      float *score, float *slope)
{
    float p = seen ? exp2f(fmaf(*score, job.scale, -known.zero)) * known.inverse : 0;
    float m = stays ? job.keep : 0;
    *score = p * m;
    *slope = p * (m * *slope - known.delta);
}

/* ---- δ: a warp takes one query of one head ---- */

template <typename T>
__global__ void dot_rows(kolo_attention_job job, const T *__restrict__ dy, const float *__restrict__ y, float *deltas)
{
    int64_t rows = (int64_t)job.microbatch * job.length * job.heads;
    for (int64_t i = thread_number() / 32; i < rows; i += thread_count() / 32) {
        int64_t sample = i / ((int64_t)job.length * job.heads);
        int number = (int)(i % job.heads), query = (int)(i / job.heads % job.length);
        float sum = 0;
        for (int k = (int)(threadIdx.x % 32); k < job.size; k += 32)
            sum += wide(dy[i * job.size + k]) * y[i * job.size + k];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) deltas[(sample * job.heads + number) * job.length + query] = sum;
    }
}

/* ---- queries ---- */

template <typename Shape>
__device__ static void of_queries(const kolo_attention_job &job, const kolo_step_parameters *step_parameters,
                                  const Gradients<typename Shape::T> &g, int64_t block, unsigned char *shared)
{
    typedef typename Shape::T T;
    T *queries = (T *)shared, *slopes = queries + Shape::OWN * Shape::STRIDE;
    T *keys = slopes + Shape::OWN * Shape::STRIDE, *values = keys + Shape::SOME * Shape::STRIDE;
    uint8_t *kept = (uint8_t *)(values + Shape::SOME * Shape::STRIDE);
    int tiles = (job.length + Shape::OWN - 1) / Shape::OWN, query = (int)(block % tiles) * Shape::OWN;
    Head head = head_of(job, block / tiles);
    int64_t all = (int64_t)job.heads * job.size, wide = 3 * all;
    int64_t from = head.sample * (job.length * wide) + head.number * job.size;
    const T *q = g.qkv + from, *dy = g.dy + head.sample * (job.length * all) + head.number * job.size;
    int warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32), own = 16 * warp + lane / 4;
    int end = job.causal && query + Shape::OWN < job.length ? query + Shape::OWN : job.length;
    bring<Shape>(job, queries, q, wide, query, Shape::OWN);
    bring<Shape>(job, slopes, dy, all, query, Shape::OWN);
    Known known[2] = {known_of(job, g.sums, g.deltas, head, query + own),
                      known_of(job, g.sums, g.deltas, head, query + own + 8)};
    float sums[Shape::SIZE / 8][4] = {{0}};
    for (int key = 0; key < end; key += Shape::SOME) {
        float scores[Shape::SOME / 8][4], back[Shape::SOME / 8][4];
        __syncthreads();
        bring<Shape>(job, keys, q + all, wide, key, Shape::SOME);
        bring<Shape>(job, values, q + 2 * all, wide, key, Shape::SOME);
        if (job.threshold > 0) draw<Shape>(job, step_parameters, head, kept, query, Shape::OWN, key, Shape::SOME);
        __syncthreads();
        multiply_rows<Shape>(scores, queries + 16 * warp * Shape::STRIDE, keys);
        multiply_rows<Shape>(back, slopes + 16 * warp * Shape::STRIDE, values);
#pragma unroll
        for (int j = 0; j < Shape::SOME / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int row = own + 8 * (i / 2), column = 8 * j + lane % 4 * 2 + i % 2;
                bool stays = job.threshold == 0 || kept[row * Shape::SOME + column];
                go_back(job, known[i / 2], sees(job, query + row, key + column), stays, &scores[j][i], &back[j][i]);
            }
        multiply_columns<Shape, Shape::SIZE>(sums, back, keys);
    }
    const float factor[2] = {job.inverse_root, job.inverse_root};
    put_rows<Shape::SIZE>(job, g.to + from, wide, query + 16 * warp, 0, sums, factor);
}

/* ---- keys and values ---- */

/* Scores and weights are transposed: their rows are keys, their columns queries. */
template <typename Shape>
__device__ static void of_keys(const kolo_attention_job &job, const kolo_step_parameters *step_parameters,
                               const Gradients<typename Shape::T> &g, int64_t block, unsigned char *shared)
{
    typedef typename Shape::T T;
    const int WIDTH = Columns<Shape>::WIDTH, PARTS = Columns<Shape>::PARTS;
    T *keys = (T *)shared, *values = keys + Shape::OWN * Shape::STRIDE;
    T *queries = values + Shape::OWN * Shape::STRIDE, *slopes = queries + Shape::SOME * Shape::STRIDE;
    Known *known = (Known *)(slopes + Shape::SOME * Shape::STRIDE);
    uint8_t *kept = (uint8_t *)(known + Shape::SOME);
    int part = (int)(block % PARTS) * WIDTH, tiles = (job.length + Shape::OWN - 1) / Shape::OWN;
    int key = (int)(block / PARTS % tiles) * Shape::OWN;
    Head head = head_of(job, block / PARTS / tiles);
    int64_t all = (int64_t)job.heads * job.size, wide = 3 * all;
    int64_t from = head.sample * (job.length * wide) + head.number * job.size;
    const T *q = g.qkv + from, *dy = g.dy + head.sample * (job.length * all) + head.number * job.size;
    int warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32), own = 16 * warp + lane / 4;
    bring<Shape>(job, keys, q + all, wide, key, Shape::OWN);
    bring<Shape>(job, values, q + 2 * all, wide, key, Shape::OWN);
    float of_keys[WIDTH / 8][4] = {{0}}, of_values[WIDTH / 8][4] = {{0}};
    for (int query = job.causal ? key : 0; query < job.length; query += Shape::SOME) {
        float scores[Shape::SOME / 8][4], back[Shape::SOME / 8][4];
        __syncthreads();
        bring<Shape>(job, queries, q, wide, query, Shape::SOME);
        bring<Shape>(job, slopes, dy, all, query, Shape::SOME);
        for (int i = (int)threadIdx.x; i < Shape::SOME; i += Shape::THREADS)
            known[i] = known_of(job, g.sums, g.deltas, head, query + i);
        if (job.threshold > 0) draw<Shape>(job, step_parameters, head, kept, query, Shape::SOME, key, Shape::OWN);
        __syncthreads();
        multiply_rows<Shape>(scores, keys + 16 * warp * Shape::STRIDE, queries);
        multiply_rows<Shape>(back, values + 16 * warp * Shape::STRIDE, slopes);
#pragma unroll
        for (int j = 0; j < Shape::SOME / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int row = own + 8 * (i / 2), column = 8 * j + lane % 4 * 2 + i % 2;
                bool stays = job.threshold == 0 || kept[column * Shape::OWN + row];
                go_back(job, known[column], sees(job, query + column, key + row), stays, &scores[j][i], &back[j][i]);
            }
        multiply_columns<Shape, WIDTH>(of_values, scores, slopes + part);
        multiply_columns<Shape, WIDTH>(of_keys, back, queries + part);
    }
    const float root[2] = {job.inverse_root, job.inverse_root}, one[2] = {1, 1};
    put_rows<WIDTH>(job, g.to + from + all, wide, key + 16 * warp, part, of_keys, root);
    put_rows<WIDTH>(job, g.to + from + 2 * all, wide, key + 16 * warp, part, of_values, one);
}

/* The blocks that have keys come first, as they take longer. */
template <typename Shape>
__global__ void __launch_bounds__(Shape::THREADS)
    go_back_all(const __grid_constant__ kolo_attention_job job, const kolo_step_parameters *step_parameters,
                const __grid_constant__ Gradients<typename Shape::T> gradients, int64_t key_blocks)
{
    KOLO_SHARED_BYTES(shared);
    int64_t block = blockIdx.x;
    if (block < key_blocks) of_keys<Shape>(job, step_parameters, gradients, block, shared);
    else of_queries<Shape>(job, step_parameters, gradients, block - key_blocks, shared);
}

/* Calls f with the shape of a block's tiles, as a Tiles. */
template <typename F> static cudaError_t with_tiles(kolo_element element, const kolo_attention_job *job, F f)
{
    return with_math(element, job, [&](auto math, auto size) {
        const int SIZE = decltype(size)::value;
        return f(Tiles<decltype(math), SIZE, rows_at_once<typename decltype(math)::T>(SIZE)>());
    });
}

template <typename Shape> static size_t shared_of(const kolo_attention_job *job)
{
    size_t tiles = 2 * (Shape::OWN + Shape::SOME) * Shape::STRIDE * sizeof(typename Shape::T);
    return tiles + Shape::SOME * sizeof(Known) + (job->threshold > 0 ? Shape::MASK : 0);
}

} // namespace kolo

using namespace kolo;

size_t kolo_cuda_attention_backward_shared(kolo_element element, const kolo_attention_job *job)
{
    size_t bytes = 0;
    with_tiles(element, job, [&](auto tiles) {
        bytes = shared_of<decltype(tiles)>(job);
        return cudaSuccess;
    });
    return bytes;
}

size_t kolo_cuda_attention_scratch(const kolo_attention_job *job)
{
    return (size_t)job->microbatch * (size_t)job->length * (size_t)job->heads * sizeof(float);
}

cudaError_t kolo_cuda_attention_backward(cudaStream_t stream, kolo_element element, const kolo_attention_job *job,
                                         const kolo_step_parameters *step_parameters,
                                         const kolo_attention_gradients *arrays, void *scratch)
{
    float *deltas = (float *)scratch;
    return with_tiles(element, job, [&](auto tiles) {
        typedef decltype(tiles) Shape;
        typedef typename Shape::T T;
        int64_t heads = (int64_t)job->microbatch * job->heads,
                blocks = (job->length + Shape::OWN - 1) / Shape::OWN * heads;
        int64_t key_blocks = blocks * Columns<Shape>::PARTS;
        cudaError_t error = launch(stream, blocks_for(heads * job->length * 32), THREADS, 0, dot_rows<T>, *job,
                                   (const T *)arrays->dy, arrays->y, deltas);
        if (error != cudaSuccess) return error;
        Gradients<T> gradients = {(const T *)arrays->dy, (const T *)arrays->qkv, arrays->kept, deltas,
                                  (T *)arrays->dqkv};
        return launch_tiles(stream, key_blocks + blocks, Shape::THREADS, shared_of<Shape>(job), go_back_all<Shape>,
                            *job, step_parameters, gradients, key_blocks);
    });
}
