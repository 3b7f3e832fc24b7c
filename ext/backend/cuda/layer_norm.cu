/* Layer normalisation over the last axis, by the formulas of backend/reference/layer_norm.c.
 *
 * A row that fits into the registers of a warp, or else of a block, is read once. A block reads a longer row again for
 * each sum. Sums are floats: a lane adds a few tens of numbers, and these sums are then added in pairs. The mean is
 * rounded, so the deviations from it are summed, too: their mean is the rounding error. The gradients of scale and
 * offset are sums over rows. A thread adds up to 256 rows in floats, or 1024 where a block shares each row, with an
 * error below 2^-14 of the sum of magnitudes; the sums of all threads are then added in doubles. */
#include "backend/cuda/images.cuh"

namespace kolo
{

static const int WARPS = 4; /* of a block */
static const int64_t NORMALISE_BLOCKS = 1056; /* each loads scale and offset first */

/* ---- a row ---- */

/* How a row is shared: by W warps, 1 or all of the block. A lane has V neighbouring elements of it K times, and holds
 * them in registers. K = 0: any number of times; it loads them again whenever they are used. */
template <int W_, int V_, int K_> struct Way {
    static const int W = W_, V = V_, K = K_;
    __device__ static int column_of(int k)
    {
        return (k * 32 * W + (int)threadIdx.x % (32 * W)) * V;
    }
    __device__ static int64_t first_row()
    {
        return W == 1 ? blockIdx.x * (int64_t)WARPS + threadIdx.x / 32 : blockIdx.x;
    }
    __device__ static int64_t row_step()
    {
        return gridDim.x * (int64_t)(WARPS / W);
    }
    __device__ static float sum(float value)
    {
        return W == 1 ? warp_sum(value) : block_sum(value);
    }
    /* Calls f(k, column) for each of the lane's runs of V elements. */
    template <typename F> __device__ static void each(int width, F f)
    {
        if constexpr (K > 0) {
#pragma unroll
            for (int k = 0; k < K; k++)
                if (column_of(k) < width) f(k, column_of(k));
        } else {
            for (int k = 0; column_of(k) < width; k++) f(k, column_of(k));
        }
    }
};

template <typename T, typename Y> struct Row {
    static const int V = Y::V, K = Y::K;
    Run<T, V> held[K > 0 ? K : 1];
    const T *from;
    int width;
    __device__ Row(const T *row, int n) : from(row), width(n)
    {
#pragma unroll
        for (int k = 0; k < K; k++)
            held[k] = Y::column_of(k) < width ? *checked<Run<T, V>>(from + Y::column_of(k)) : Run<T, V>();
    }
    __device__ Run<T, V> run(int k) const
    {
        if constexpr (K > 0) return held[k];
        return *checked<Run<T, V>>(from + Y::column_of(k));
    }
};

/* z = (x − mean − rest) · inverse. rest: the true mean less the rounded one. */
struct Moments {
    float mean, rest, inverse;
    __device__ float z(float x) const
    {
        return (x - mean - rest) * inverse;
    }
};

template <typename T, typename Y> __device__ static Moments moments_of(const Row<T, Y> &x, float epsilon)
{
    const int V = Y::V;
    float sum = 0, first = 0, second = 0, n = (float)x.width;
    Y::each(x.width, [&](int k, int) {
        Run<T, V> run = x.run(k);
        for (int v = 0; v < V; v++) sum += element(run, v);
    });
    float mean = Y::sum(sum) / n;
    Y::each(x.width, [&](int k, int) {
        Run<T, V> run = x.run(k);
        for (int v = 0; v < V; v++) {
            float d = element(run, v) - mean;
            first += d;
            second = fmaf(d, d, second);
        }
    });
    float rest = Y::sum(first) / n, variance = Y::sum(second) / n - rest * rest;
    return Moments{mean, rest, 1 / sqrtf((variance < 0 ? 0 : variance) + epsilon)};
}

/* ---- scale and offset ---- */

/* Weights are aligned to 4 bytes only. Where rows are held in registers, these factors are copied to shared memory. */
template <int K> struct Factors {
    const float *global, *shared;
    float otherwise;
    __device__ float at(int column) const
    {
        if constexpr (K > 0) return shared[column];
        return global ? global[column] : otherwise;
    }
};

template <int K> __device__ static Factors<K> factors_of(const float *global, float otherwise, float *shared, int width)
{
    if constexpr (K > 0)
        for (int i = (int)threadIdx.x; i < width; i += (int)blockDim.x) shared[i] = global ? global[i] : otherwise;
    return Factors<K>{global, shared, otherwise};
}

/* ---- forward ---- */

template <typename T, typename Y>
__global__ void normalise(kolo_layer_norm_job job, const T *__restrict__ x, const float *__restrict__ scale,
                          const float *__restrict__ offset, T *__restrict__ y)
{
    KOLO_SHARED_BYTES(bytes);
    const int V = Y::V, K = Y::K;
    int n = job.width;
    Factors<K> by = factors_of<K>(scale, 1, (float *)bytes, n), plus = factors_of<K>(offset, 0, (float *)bytes + n, n);
    __syncthreads();
    for (int64_t row = Y::first_row(); row < job.microbatch * job.rows; row += Y::row_step()) {
        Row<T, Y> own(x + row * n, n);
        Moments m = moments_of(own, (float)job.epsilon);
        Y::each(n, [&](int k, int column) {
            Run<T, V> run = own.run(k);
            float values[V];
            for (int v = 0; v < V; v++) values[v] = fmaf(by.at(column + v), m.z(element(run, v)), plus.at(column + v));
            store<T, V>(y + row * n + column, values);
        });
    }
}

/* ---- backward ---- */

/* dx of a row, from the lanes' dy and x. other: a row that is added, or NULL. */
template <typename T, typename Y>
__device__ static void row_backward(const Row<T, Y> &dy, const Row<T, Y> &x, const Moments &m, const Factors<Y::K> &by,
                                    const T *other, T *dx)
{
    const int V = Y::V;
    float sum = 0, dot = 0, n = (float)x.width;
    Y::each(x.width, [&](int k, int column) {
        Run<T, V> dy_run = dy.run(k), x_run = x.run(k);
        for (int v = 0; v < V; v++) {
            float dz = by.at(column + v) * element(dy_run, v);
            sum += dz;
            dot = fmaf(dz, m.z(element(x_run, v)), dot);
        }
    });
    sum = Y::sum(sum) / n;
    dot = Y::sum(dot) / n;
    Y::each(x.width, [&](int k, int column) {
        Run<T, V> dy_run = dy.run(k), x_run = x.run(k);
        float values[V], others[V];
        if (other) load<T, V>(other + column, others);
        for (int v = 0; v < V; v++) {
            values[v] = (by.at(column + v) * element(dy_run, v) - sum - m.z(element(x_run, v)) * dot) * m.inverse;
            T rounded;
            narrow(values[v], &rounded);
            if (other) values[v] = wide(rounded) + others[v];
        }
        store<T, V>(dx + column, values);
    });
}

/* dx of a row that does not count: zeros, or `other`. */
template <typename T, typename Y> __device__ static void clear_row(const T *other, T *dx, int n)
{
    Y::each(n, [&](int, int column) {
        float values[Y::V] = {0};
        if (other) load<T, Y::V>(other + column, values);
        store<T, Y::V>(dx + column, values);
    });
}

/* Adds up the sums of a block's warps, as of_block[n] and, `apart` elements further, [n]. Where each warp has rows of
 * its own, they add theirs one after the other. */
template <typename Y>
__device__ static void block_sums(const float dscale[Y::K][Y::V], const float doffset[Y::K][Y::V], int n, float *shared,
                                  float *of_block, int64_t apart)
{
    float *to = Y::W == 1 ? shared : of_block, *also = Y::W == 1 ? shared + n : of_block + apart;
    for (int turn = 0; turn < WARPS / Y::W; turn++) {
        __syncthreads();
        if (Y::W == 1 && turn != (int)threadIdx.x / 32) continue;
        Y::each(n, [&](int k, int column) {
            for (int v = 0; v < Y::V; v++) {
                to[column + v] = dscale[k][v] + (turn ? to[column + v] : 0);
                also[column + v] = doffset[k][v] + (turn ? also[column + v] : 0);
            }
        });
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; Y::W == 1 && i < n; i += (int)blockDim.x) {
        of_block[i] = shared[i];
        of_block[apart + i] = shared[n + i];
    }
}

/* Writes dx, unless it is NULL; and the block's sums for the gradients of scale and offset, unless of_blocks is NULL.
 * Of a row that is not held in registers, the sums are not either: each thread adds to its own columns in of_blocks. */
template <typename T, typename Y>
__global__ void __launch_bounds__(WARPS * 32)
    differentiate(kolo_layer_norm_job job, const T *__restrict__ dy, const T *__restrict__ x,
                  const float *__restrict__ scale, const T *__restrict__ other, T *__restrict__ dx,
                  float *__restrict__ of_blocks)
{
    KOLO_SHARED_BYTES(bytes);
    const int V = Y::V, K = Y::K;
    int n = job.width;
    int64_t counting = samples_of(job.step_parameters, job.first, job.microbatch) * job.rows;
    int64_t apart = (int64_t)gridDim.x * n; /* of_blocks[2][blocks][n] */
    Factors<K> by = factors_of<K>(scale, 1, (float *)bytes, n);
    float dscale[K > 0 ? K : 1][V], doffset[K > 0 ? K : 1][V], *own = nullptr;
    if (of_blocks) own = of_blocks + (int64_t)blockIdx.x * n;
    if constexpr (K > 0) {
#pragma unroll
        for (int k = 0; k < K; k++)
            for (int v = 0; v < V; v++) dscale[k][v] = doffset[k][v] = 0;
    } else if (own) {
        Y::each(n, [&](int, int column) {
            for (int v = 0; v < V; v++) own[column + v] = own[apart + column + v] = 0;
        });
    }
    __syncthreads();
    for (int64_t row = Y::first_row(); row < job.microbatch * job.rows; row += Y::row_step()) {
        if (row >= counting) {
            if (dx) clear_row<T, Y>(other ? other + row * n : other, dx + row * n, n);
            continue;
        }
        Row<T, Y> dy_row(dy + row * n, n), x_row(x + row * n, n);
        Moments m = moments_of(x_row, (float)job.epsilon);
        if (K > 0 || own)
            Y::each(n, [&](int k, int column) {
                Run<T, V> dy_run = dy_row.run(k), x_run = x_row.run(k);
                for (int v = 0; v < V; v++) {
                    float value = element(dy_run, v), &sum = K > 0 ? dscale[k][v] : own[column + v];
                    sum = fmaf(value, m.z(element(x_run, v)), sum);
                    (K > 0 ? doffset[k][v] : own[apart + column + v]) += value;
                }
            });
        if (dx) row_backward(dy_row, x_row, m, by, other ? other + row * n : other, dx + row * n);
    }
    if constexpr (K > 0)
        if (own) block_sums<Y>(dscale, doffset, n, (float *)bytes + n, own, apart);
}

/* ---- on the host ---- */

static int64_t rows_of(const kolo_layer_norm_job *job)
{
    return job->microbatch * job->rows;
}

/* Calls f with the Way for rows of this width. A lane holds at most 32 elements, and at most eight runs of them: with
 * as many sums beside them its registers are full. */
template <int V, typename F> static cudaError_t with_way(int width, F f)
{
    const int MOST = V == 8 ? 4 : 8;
    if (width <= 32 * V) return f(Way<1, V, 1>());
    if (width <= 64 * V) return f(Way<1, V, 2>());
    if (width <= 128 * V) return f(Way<1, V, 4>());
    if (width <= 32 * V * MOST) return f(Way<1, V, MOST>());
    if (width <= 64 * V * MOST) return f(Way<WARPS, V, MOST / 2>());
    if (width <= 128 * V * MOST) return f(Way<WARPS, V, MOST>());
    return f(Way<WARPS, V, 0>());
}

/* The number of blocks that sum over the rows: up to two on each of 132 multiprocessors, and more only where a warp
 * would get more than 256 rows. */
static int blocks_of_sums(const kolo_layer_norm_job *job)
{
    int64_t few = (rows_of(job) + 8 * WARPS - 1) / (8 * WARPS), many = rows_of(job) / (256 * WARPS) + 1;
    int64_t blocks = many > 264 ? many : few > 264 ? 264 : few;
    return (int)(blocks > 4096 ? 4096 : blocks);
}

template <typename T>
static cudaError_t backward(cudaStream_t stream, const kolo_layer_norm_job *job, const T *dy, const T *x,
                            const float *scale, const T *other, T *dx, bool sums, float *scratch)
{
    return with_lanes<T>(job->width, [&](auto lanes) {
        return with_way<decltype(lanes)::value>(job->width, [&](auto way) {
            typedef decltype(way) Y;
            size_t shared = Y::K == 0 ? 0 : (Y::W == 1 ? 3 : 1) * (size_t)job->width * sizeof(float);
            return launch(stream, (unsigned)blocks_of_sums(job), WARPS * 32, shared, differentiate<T, Y>, *job, dy, x,
                          scale, other, dx, sums ? scratch : (float *)nullptr);
        });
    });
}

template <typename T>
static cudaError_t forward(cudaStream_t stream, const kolo_layer_norm_job *job, const T *x, const float *scale,
                           const float *offset, T *y)
{
    return with_lanes<T>(job->width, [&](auto lanes) {
        return with_way<decltype(lanes)::value>(job->width, [&](auto way) {
            typedef decltype(way) Y;
            int64_t blocks = Y::W == 1 ? (rows_of(job) + WARPS - 1) / WARPS : rows_of(job);
            int64_t limit = Y::K > 0 ? NORMALISE_BLOCKS : BLOCKS_MAX;
            size_t shared = Y::K > 0 ? 2 * (size_t)job->width * sizeof(float) : 0;
            return launch(stream, (unsigned)(blocks < limit ? blocks : limit), WARPS * 32, shared, normalise<T, Y>,
                          *job, x, scale, offset, y);
        });
    });
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_layer_norm(cudaStream_t stream, kolo_element element, const kolo_layer_norm_job *job,
                                 const void *x, const float *scale, const float *offset, void *y)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return forward<T>(stream, job, (const T *)x, scale, offset, (T *)y);
    });
}

size_t kolo_cuda_layer_norm_scratch(const kolo_layer_norm_job *job)
{
    return (size_t)blocks_of_sums(job) * 2 * (size_t)job->width * sizeof(float);
}

cudaError_t kolo_cuda_layer_norm_backward(cudaStream_t stream, kolo_element element, const kolo_layer_norm_job *job,
                                          const void *dy, const void *x, const float *scale, void *dx,
                                          const void *other, float *dscale, float *doffset, void *scratch)
{
    bool sums = dscale || doffset;
    cudaError_t error = with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return backward<T>(stream, job, (const T *)dy, (const T *)x, scale, (const T *)other, (T *)dx, sums,
                           (float *)scratch);
    });
    if (error != cudaSuccess) return error;
    float *const to[] = {dscale, doffset};
    const int blocks = blocks_of_sums(job);
    kolo_packing moves[2];
    int count = 0;
    for (int i = 0; i < 2; i++)
        if (to[i])
            moves[count++] = {(const float *)scratch + (int64_t)i * blocks * job->width,
                              to[i],
                              1,
                              job->width,
                              KOLO_ELEMENT_FLOAT,
                              false,
                              blocks};
    return kolo_cuda_pack_arrays(stream, moves, count);
}
