/* Batch normalisation over the last axis, by the formulas of backend/reference/batch_norm.c.
 *
 * A microbatch is a matrix of rows × channels, whose columns are summed as columns.cuh describes. Before it squares
 * anything, a block subtracts its first row from all its rows. The differences are no larger than the channel's spread,
 * so floats lose 2^-24 of the spread and not of the mean. The sums of a block, and everything computed from them, are
 * doubles, as in the reference backend. */
#include "backend/cuda/columns.cuh"

namespace kolo
{

/* The elementwise pass: the most blocks, the most channels of a block, and the rows that a thread loads at once. */
static const int APPLY_BLOCKS = 528, APPLY_CHANNELS = 256, APPLY_ROWS = 4;

/* Rows of the samples that count. */
__device__ static int64_t rows_of(const kolo_batch_norm_job &job)
{
    return samples_of(job.step_parameters, job.first, job.microbatch) * job.rows;
}

/* ---- the factors of a channel ---- */

struct Channel {
    double mean, variance, slope; /* x̂ = (x − mean) · slope */
};

__device__ static Channel channel_of(const kolo_batch_norm_job &job, int c)
{
    double mean, variance;
    if (job.reduced) {
        double n = job.reduced[2 * job.channels], found;
        mean = job.reduced[c] / n;
        found = job.reduced[job.channels + c] / n - mean * mean;
        variance = found < 0 ? 0 : found; /* rounding can make it negative; NaN stays NaN */
    } else {
        mean = job.mean[c];
        variance = job.variance[c];
    }
    return Channel{mean, variance, rsqrt(variance + job.epsilon)};
}

/* y = (x − mean) · scale + shift. mean is rounded to float, and shift corrects for that. */
struct Line {
    float mean, scale, shift;
    __device__ float at(float x) const
    {
        return fmaf(x - mean, scale, shift);
    }
};

__device__ static Line line_of(const kolo_batch_norm_job &job, const Channel &of, int c)
{
    double scale = of.slope * (job.gamma ? job.gamma[c] : 1), mean = (float)of.mean;
    return Line{(float)mean, (float)scale, (float)((job.beta ? job.beta[c] : 0) + (mean - of.mean) * scale)};
}

/* ---- sums ---- */

/* The two kinds of sums. They differ in what add() adds, what of_block() makes of a block's sums, and what finish()
 * writes. Moments adds Σd and Σd² in a block, with d = x − o, where o is the first of the block's rows. */
template <typename T, int V> struct Moments {
    static const int TENSORS = 1, ROWS = 8;
    const T *x;
    double *out; /* Σx, Σx², n */
    struct Own {
        float origin[V];
    };
    __device__ const T *tensor(int) const
    {
        return x;
    }
    __device__ void begin(const kolo_batch_norm_job &job, Own *own, int64_t row, int c, int, bool any) const
    {
        if (any) load<T, V>(x + row * job.channels + c, own->origin);
    }
    __device__ static void add(const kolo_batch_norm_job &, const Own &own, const Run<T, V> &run, const Run<T, V> &,
                               int v, float sums[2])
    {
        float d = element(run, v) - own.origin[v];
        sums[0] += d;
        sums[1] = fmaf(d, d, sums[1]);
    }
    /* Σx = Σd + n·o, Σx² = Σd² + 2o·Σd + n·o². n: the number of the block's rows, of which `row` is the first. */
    __device__ void of_block(const kolo_batch_norm_job &job, double sums[2], int64_t row, int c, int64_t n) const
    {
        if (n == 0) return;
        double o = wide(x[row * job.channels + c]), no = (double)n * o;
        sums[1] += o * (2 * sums[0] + no);
        sums[0] += no;
    }
    __device__ void finish(const kolo_batch_norm_job &job, const double sums[2], int c, int64_t rows) const
    {
        out[c] = sums[0];
        out[job.channels + c] = sums[1];
        if (c == 0) out[2 * job.channels] = (double)rows;
    }
};

/* Σdz and Σdz·(x − mean), where dz is dy, or 0 where the ReLU's output is 0. */
template <typename T, int V> struct Gradients {
    static const int TENSORS = 2, ROWS = 4;
    const T *dy, *x;
    double *out; /* Σdz, Σdz·x̂ */
    float *dgamma, *dbeta;
    struct Own {
        Line line[V];
    };
    __device__ const T *tensor(int i) const
    {
        return i == 0 ? dy : x;
    }
    __device__ void begin(const kolo_batch_norm_job &job, Own *own, int64_t, int c, int first, bool any) const
    {
        __shared__ Line lines[SUM_COLUMNS];
        int thread = (int)threadIdx.x;
        if (thread < SUM_COLUMNS && first + thread < job.channels)
            lines[thread] = line_of(job, channel_of(job, first + thread), first + thread);
        __syncthreads();
        for (int v = 0; any && v < V; v++) own->line[v] = lines[c - first + v];
    }
    __device__ static void add(const kolo_batch_norm_job &job, const Own &own, const Run<T, V> &dy_run,
                               const Run<T, V> &x_run, int v, float sums[2])
    {
        float dz = element(dy_run, v), x = element(x_run, v);
        if (job.relu && own.line[v].at(x) <= 0) dz = 0;
        sums[0] += dz;
        sums[1] = fmaf(dz, x - own.line[v].mean, sums[1]);
    }
    __device__ void of_block(const kolo_batch_norm_job &, double *, int64_t, int, int64_t) const
    {
    }
    __device__ void finish(const kolo_batch_norm_job &job, const double sums[2], int c, int64_t rows) const
    {
        Channel of = channel_of(job, c);
        double rounding = (double)(float)of.mean - of.mean;
        double by_hat = rows == 0 ? 0 : (sums[1] + rounding * sums[0]) * of.slope; /* without rows the mean is NaN */
        out[c] = sums[0];
        out[job.channels + c] = by_hat;
        if (dgamma) dgamma[c] = (float)by_hat;
        if (dbeta) dbeta[c] = (float)sums[0];
    }
};

/* Sums a thread's rows. It loads S::ROWS of them at once, to keep the memory busy. */
template <typename T, int V, typename S>
__device__ static void thread_sums(const kolo_batch_norm_job &job, const S &s, const typename S::Own &own, int64_t row,
                                   int64_t step, int64_t rows, int c, float sums[2][V])
{
    for (; row < rows; row += S::ROWS * step) {
        Run<T, V> loaded[S::TENSORS][S::ROWS];
#pragma unroll
        for (int k = 0; k < S::ROWS; k++)
#pragma unroll
            for (int i = 0; i < S::TENSORS; i++)
                if (row + k * step < rows)
                    loaded[i][k] = *checked<Run<T, V>>(s.tensor(i) + (row + k * step) * job.channels + c);
#pragma unroll
        for (int v = 0; v < V; v++) {
            float part[2] = {0, 0};
#pragma unroll
            for (int k = 0; k < S::ROWS; k++)
                if (row + k * step < rows) S::add(job, own, loaded[0][k], loaded[S::TENSORS - 1][k], v, part);
            sums[0][v] += part[0];
            sums[1][v] += part[1];
        }
    }
}

template <typename T, int V, typename S>
__global__ void __launch_bounds__(THREADS, 2)
    sum_rows(kolo_batch_norm_job job, Tiles tiles, S s, Columns<2> *of_blocks, unsigned *tickets)
{
    int thread = (int)threadIdx.x, lanes = tiles.lanes, channels = lanes * V, first = (int)blockIdx.y * channels;
    int c = first + thread % lanes * V;
    int64_t rows = rows_of(job), step = (int64_t)gridDim.x * tiles.groups, row = (int64_t)blockIdx.x * tiles.groups;
    int64_t rest = rows % step - row, n = rows / step * tiles.groups;
    n += rest < 0 ? 0 : rest < tiles.groups ? rest : tiles.groups; /* the block's rows */
    bool any = n > 0 && c < job.channels;
    float sums[2][V];
    typename S::Own own;
    for (int v = 0; v < V; v++) sums[0][v] = sums[1][v] = 0;
    s.begin(job, &own, row, c, first, any);
    if (any) thread_sums<T, V>(job, s, own, row + thread / lanes, step, rows, c, sums);
    Columns<2> columns = block_columns<2, V>(sums, lanes);
    bool counts = thread < channels && first + thread < job.channels;
    if (counts) s.of_block(job, columns.sum, row, first + thread, n);
    if (!all_columns(&columns, channels, of_blocks, tickets)) return;
    if (counts) s.finish(job, columns.sum, first + thread, rows);
}

/* ---- element by element ---- */

/* apply() goes through the rows from the last to the first: the rows that the sums read last are still in the cache.
 * ADDS: y is added to another tensor. */
template <bool ADDS> struct Forward {
    static const int TENSORS = ADDS ? 2 : 1;
    typedef Line Factors;
    float *dmean, *dvariance;
    bool cut; /* a ReLU is applied to that sum */
    __device__ Factors factors(const kolo_batch_norm_job &job, int c) const
    {
        Channel of = channel_of(job, c);
        return line_of(job, of, c);
    }
    template <typename T>
    __device__ float value(const kolo_batch_norm_job &job, const Factors &f, float x, float other, bool counts) const
    {
        float y = !counts ? 0 : f.at(x);
        if (job.relu && y < 0) y = 0; /* NaN stays NaN */
        if (!ADDS) return y;
        T rounded;
        narrow(y, &rounded);
        y = wide(rounded) + other;
        return cut && y < 0 ? 0 : y;
    }
    /* Writes the moments times the microbatch's samples: running means take them in as the "gradient"
     * (kolo_span.momentum). */
    __device__ void hand_over(const kolo_batch_norm_job &job, int c) const
    {
        if (!job.reduced) return;
        double samples = samples_of(job.step_parameters, job.first, job.microbatch);
        Channel of = channel_of(job, c);
        if (dmean) dmean[c] = samples == 0 ? 0 : (float)(samples * of.mean);
        if (dvariance) dvariance[c] = samples == 0 ? 0 : (float)(samples * of.variance);
    }
};

/* dx = dz · scale + (x − mean) · by_x + constant */
struct Backward {
    static const int TENSORS = 2;
    const double *sums;
    struct Factors {
        Line line;
        float by_x, constant;
    };
    __device__ Factors factors(const kolo_batch_norm_job &job, int c) const
    {
        Channel of = channel_of(job, c);
        double n = job.reduced[2 * job.channels], scale = of.slope * (job.gamma ? job.gamma[c] : 1);
        double by_x = -scale * of.slope * sums[job.channels + c] / n, rounding = (double)(float)of.mean - of.mean;
        return Factors{line_of(job, of, c), (float)by_x, (float)(-scale * sums[c] / n + rounding * by_x)};
    }
    template <typename T>
    __device__ float value(const kolo_batch_norm_job &job, const Factors &f, float x, float dy, bool counts) const
    {
        float dz = job.relu && f.line.at(x) <= 0 ? 0 : dy;
        return !counts ? 0 : fmaf(dz, f.line.scale, fmaf(x - f.line.mean, f.by_x, f.constant));
    }
    __device__ void hand_over(const kolo_batch_norm_job &, int) const
    {
    }
};

/* Loads APPLY_ROWS rows, from `row` downwards, `step` apart. */
template <typename T, int V, typename F>
__device__ static void load_rows(Run<T, V> to[F::TENSORS][APPLY_ROWS], const T *x, const T *second, int64_t row,
                                 int64_t step, int64_t channels, int c)
{
#pragma unroll
    for (int k = 0; k < APPLY_ROWS; k++) {
        int64_t at = (row - k * step) * channels + c;
        if (row - k * step < 0) continue;
        to[0][k] = *checked<Run<T, V>>(x + at);
        if (F::TENSORS > 1) to[F::TENSORS - 1][k] = *checked<Run<T, V>>(second + at);
    }
}

/* Loads the first rows while it computes the channels' factors. */
template <typename T, int V, typename F>
__global__ void __launch_bounds__(THREADS, 2) apply(kolo_batch_norm_job job, Tiles tiles, F f, const T *__restrict__ x,
                                                    const T *__restrict__ second, T *__restrict__ y)
{
    typedef typename F::Factors Factors;
    __shared__ Factors of_channels[APPLY_CHANNELS];
    int thread = (int)threadIdx.x, first = (int)blockIdx.y * tiles.lanes * V, c = first + thread % tiles.lanes * V;
    int64_t counting = rows_of(job), all = job.microbatch * job.rows, step = (int64_t)gridDim.x * tiles.groups;
    int64_t row = all - 1 - ((int64_t)blockIdx.x * tiles.groups + thread / tiles.lanes);
    if (c >= job.channels) row = -1;
    Run<T, V> loaded[F::TENSORS][APPLY_ROWS];
    Factors own[V];
    load_rows<T, V, F>(loaded, x, second, row, step, job.channels, c);
    for (int i = thread; i < tiles.lanes * V && first + i < job.channels; i += (int)blockDim.x) {
        of_channels[i] = f.factors(job, first + i);
        if (blockIdx.x == 0) f.hand_over(job, first + i);
    }
    __syncthreads();
    if (row < 0) return;
    for (int v = 0; v < V; v++) own[v] = of_channels[c - first + v];
    for (;;) {
#pragma unroll
        for (int k = 0; k < APPLY_ROWS; k++) {
            int64_t at = row - k * step;
            float values[V];
            if (at < 0) continue;
            for (int v = 0; v < V; v++)
                values[v] = f.template value<T>(job, own[v], element(loaded[0][k], v),
                                                element(loaded[F::TENSORS - 1][k], v), at < counting);
            store<T, V>(y + at * job.channels + c, values);
        }
        row -= APPLY_ROWS * step;
        if (row < 0) return;
        load_rows<T, V, F>(loaded, x, second, row, step, job.channels, c);
    }
}

/* ---- on the host ---- */

static Tiles tiles_of_rows(const kolo_batch_norm_job *job, int V)
{
    int64_t units = job->channels / V, chunks = parts_of(units * V, APPLY_CHANNELS), lanes = parts_of(units, chunks);
    int groups = THREADS / (int)lanes;
    int64_t blocks = parts_of(job->microbatch * job->rows, (int64_t)groups * APPLY_ROWS);
    int64_t limit = chunks < APPLY_BLOCKS ? APPLY_BLOCKS / chunks : 1;
    return Tiles{(int)lanes, groups, dim3((unsigned)(blocks < limit ? blocks : limit), (unsigned)chunks)};
}

template <template <typename, int> class S, typename T, typename... A>
static cudaError_t sum(cudaStream_t stream, const kolo_batch_norm_job *job, void *scratch, unsigned *tickets,
                       A... arguments)
{
    return with_lanes<T>(job->channels, [&](auto lanes) {
        constexpr int V = decltype(lanes)::value;
        Tiles tiles = tiles_of_sums(job->microbatch * job->rows, job->channels, V, S<T, V>::ROWS);
        return launch(stream, tiles.blocks, THREADS, 0, sum_rows<T, V, S<T, V>>, *job, tiles, S<T, V>{arguments...},
                      (Columns<2> *)scratch, tickets);
    });
}

template <typename T, typename F>
static cudaError_t each(cudaStream_t stream, const kolo_batch_norm_job *job, F f, const T *x, const T *dy, T *y)
{
    return with_lanes<T>(job->channels, [&](auto lanes) {
        constexpr int V = decltype(lanes)::value;
        Tiles tiles = tiles_of_rows(job, V);
        return launch(stream, tiles.blocks, tiles.lanes * tiles.groups, 0, apply<T, V, F>, *job, tiles, f, x, dy, y);
    });
}

} // namespace kolo

using namespace kolo;

size_t kolo_cuda_batch_norm_scratch(kolo_element element, const kolo_batch_norm_job *job)
{
    size_t bytes = 0;
    with(element, [&](auto zero) {
        return with_lanes<decltype(zero)>(job->channels, [&](auto lanes) {
            constexpr int V = decltype(lanes)::value;
            bytes = bytes_of_sums<2>(tiles_of_sums(job->microbatch * job->rows, job->channels, V, 1), V);
            return cudaSuccess;
        });
    });
    return bytes;
}

cudaError_t kolo_cuda_batch_norm_moments(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                         const void *x, double *sums, void *scratch, unsigned *tickets)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return sum<Moments, T>(stream, job, scratch, tickets, (const T *)x, sums);
    });
}

cudaError_t kolo_cuda_batch_norm(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                 const void *x, void *y, float *dmean, float *dvariance, const void *other, bool cut)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        if (other)
            return each(stream, job, Forward<true>{dmean, dvariance, cut}, (const T *)x, (const T *)other, (T *)y);
        return each(stream, job, Forward<false>{dmean, dvariance, cut}, (const T *)x, (const T *)nullptr, (T *)y);
    });
}

cudaError_t kolo_cuda_batch_norm_sums(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                      const void *dy, const void *x, double *sums, float *dgamma, float *dbeta,
                                      void *scratch, unsigned *tickets)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return sum<Gradients, T>(stream, job, scratch, tickets, (const T *)dy, (const T *)x, sums, dgamma, dbeta);
    });
}

cudaError_t kolo_cuda_batch_norm_backward(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                          const double *sums, const void *dy, const void *x, void *dx)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return each(stream, job, Backward{sums}, (const T *)x, (const T *)dy, (T *)dx);
    });
}
