/* Batch normalisation over the last axis, by the formulas of backend/reference/batch_norm.c.
 *
 * A leaf is rows of channels; a thread takes V neighbouring channels of some rows. Sums go in three stages, whose order
 * hangs on the shape alone: a thread's, in floats; those of its block, in doubles; and of all blocks, by whichever comes
 * last. Before anything is squared, a block takes its first row off: what is left is no larger than the channel's
 * spread, so that floats lose 2^-24 of that, not of the mean. A thread adds up n/8 partial sums of eight; the error of
 * such a sum is below (n/8 + 8)·2^-24 of the sum of magnitudes (Higham 2002, 4.2), and of independent threads' errors
 * some hundredth is left in their sum. From there on all is double, as the reference has it.
 */
#include "backend/cuda/images.cuh"

namespace kolo {

/* Blocks of the sums: two on each of the 132 multiprocessors of the largest chip that this was planned for. They are the
 * same on any chip, so that the bits are. */
static const int SUM_BLOCKS = 264;
static const int SUM_CHANNELS = 32; /* of a block of them, at most */

/* What goes element by element: its blocks, how many channels one has, and rows that a thread loads at once. */
static const int APPLY_BLOCKS = 528, APPLY_CHANNELS = 256, APPLY_ROWS = 4;

/* Rows of the samples that count. */
__device__ static int64_t rows_of(const kolo_batch_norm_job &job)
{
    return samples_of(job.moment, job.first, job.leaf) * job.rows;
}

struct Pair {
    double first, second;
};

/* How blocks lie over a leaf: along x over its rows, along y over its channels, of which each takes `lanes` times V. */
struct Tiles {
    int lanes, groups; /* of threads: groups of so many side by side, a row each */
    dim3 blocks;
};

/* ---- what a channel has in common ---- */

struct Channel {
    double mean, variance, slope; /* x̂ = (x − mean) · slope */
};

__device__ static Channel channel_of(const kolo_batch_norm_job &job, int c)
{
    double mean, variance;
    if (job.met) {
        double n = job.met[2 * job.channels], found;
        mean = job.met[c] / n;
        found = job.met[job.channels + c] / n - mean * mean;
        variance = found < 0 ? 0 : found; /* by rounding; NaN stays NaN */
    } else {
        mean = job.mean[c];
        variance = job.variance[c];
    }
    return Channel{mean, variance, rsqrt(variance + job.epsilon)};
}

/* y = (x − mean) · scale + shift, where mean is a float and shift makes up for that. */
struct Line {
    float mean, scale, shift;
    __device__ float at(float x) const { return fmaf(x - mean, scale, shift); }
};

__device__ static Line line_of(const kolo_batch_norm_job &job, const Channel &of, int c)
{
    double scale = of.slope * (job.gamma ? job.gamma[c] : 1), mean = (float)of.mean;
    return Line{(float)mean, (float)scale, (float)((job.beta ? job.beta[c] : 0) + (mean - of.mean) * scale)};
}

/* ---- sums ---- */

/* Of the block's threads, all of whose sums[0][V] and sums[1][V] are of V channels: thread c < lanes · V has those of
 * channel c. */
template <int V> __device__ static Pair block_pair(float sums[2][V], int lanes)
{
    __shared__ float of_threads[2 * V * (THREADS + SUM_CHANNELS / V)];
    __shared__ double parts[THREADS];
    int thread = (int)threadIdx.x, stride = THREADS + lanes, channels = lanes * V, outputs = 2 * channels;
    int groups = THREADS / lanes, slices = THREADS / outputs;
    for (int which = 0; which < 2; which++)
        for (int v = 0; v < V; v++) of_threads[(which * V + v) * stride + thread] = sums[which][v];
    __syncthreads();
    int output = thread % outputs, slice = thread / outputs, c = output % channels;
    const float *from = of_threads + (output / channels * V + c % V) * stride + c / V;
    double sum = 0;
    for (int group = slice; group < groups; group += slices) sum += from[group * lanes];
    parts[thread] = sum;
    for (int half = slices / 2; half > 0; half /= 2) {
        __syncthreads();
        if (slice < half) parts[thread] += parts[thread + half * outputs];
    }
    __syncthreads();
    return thread < channels ? Pair{parts[thread], parts[thread + channels]} : Pair{0, 0};
}

/* The sum of what the blocks found: thread c < channels has that of channel c. */
__device__ static Pair blocks_pair(const Pair *of_blocks, int channels)
{
    __shared__ Pair parts[THREADS];
    int thread = (int)threadIdx.x, slices = THREADS / channels, slice = thread / channels, blocks = (int)gridDim.x;
    Pair sum = {0, 0};
#pragma unroll 8
    for (int block = slice; block < blocks; block += slices) {
        double first = __ldcg(&of_blocks[block * channels + thread % channels].first);
        double second = __ldcg(&of_blocks[block * channels + thread % channels].second);
        sum.first += first;
        sum.second += second;
    }
    parts[thread] = sum;
    for (int half = slices / 2; half > 0; half /= 2) {
        __syncthreads();
        if (slice >= half) continue;
        parts[thread].first += parts[thread + half * channels].first;
        parts[thread].second += parts[thread + half * channels].second;
    }
    return parts[thread];
}

/* What differs between the two kinds of sums: what is added, what a block makes of that, and what becomes of the whole.
 * Moments are Σ(x − origin) and Σ(x − origin)² of a block, origin being the first row that it has. */
template <typename T, int V> struct Moments {
    static const int TENSORS = 1, ROWS = 8;
    const T *x;
    double *out; /* Σx, Σx², n */
    struct Own {
        float origin[V];
    };
    __device__ const T *tensor(int) const { return x; }
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
    /* Σx = Σd + n·o, Σx² = Σd² + 2o·Σd + n·o²; n: the block's rows, from `row` on. */
    __device__ Pair of_block(const kolo_batch_norm_job &job, Pair sums, int64_t row, int c, int64_t n) const
    {
        if (n == 0) return Pair{0, 0};
        double o = wide(x[row * job.channels + c]), no = (double)n * o;
        return Pair{sums.first + no, sums.second + o * (2 * sums.first + no)};
    }
    __device__ void finish(const kolo_batch_norm_job &job, Pair sums, int c, int64_t rows) const
    {
        out[c] = sums.first;
        out[job.channels + c] = sums.second;
        if (c == 0) out[2 * job.channels] = (double)rows;
    }
};

/* Σdz and Σdz·(x − mean), dz being dy where relu lets it through. */
template <typename T, int V> struct Gradients {
    static const int TENSORS = 2, ROWS = 4;
    const T *dy, *x;
    double *out; /* Σdz, Σdz·x̂ */
    float *dgamma, *dbeta;
    struct Own {
        Line line[V];
    };
    __device__ const T *tensor(int i) const { return i == 0 ? dy : x; }
    __device__ void begin(const kolo_batch_norm_job &job, Own *own, int64_t, int c, int first, bool) const
    {
        __shared__ Line lines[SUM_CHANNELS];
        int thread = (int)threadIdx.x;
        if (thread < SUM_CHANNELS && first + thread < job.channels)
            lines[thread] = line_of(job, channel_of(job, first + thread), first + thread);
        __syncthreads();
        for (int v = 0; v < V; v++) own->line[v] = lines[c - first + v];
    }
    __device__ static void add(const kolo_batch_norm_job &job, const Own &own, const Run<T, V> &dy_run,
                               const Run<T, V> &x_run, int v, float sums[2])
    {
        float dz = element(dy_run, v), x = element(x_run, v);
        if (job.relu && own.line[v].at(x) <= 0) dz = 0;
        sums[0] += dz;
        sums[1] = fmaf(dz, x - own.line[v].mean, sums[1]);
    }
    __device__ Pair of_block(const kolo_batch_norm_job &, Pair sums, int64_t, int, int64_t) const { return sums; }
    __device__ void finish(const kolo_batch_norm_job &job, Pair sums, int c, int64_t rows) const
    {
        Channel of = channel_of(job, c);
        double rounding = (double)(float)of.mean - of.mean;
        double by_hat = rows == 0 ? 0 : (sums.second + rounding * sums.first) * of.slope; /* no rows, no mean */
        out[c] = sums.first;
        out[job.channels + c] = by_hat;
        if (dgamma) dgamma[c] = (float)by_hat;
        if (dbeta) dbeta[c] = (float)sums.first;
    }
};

/* A thread's part of the rows, so many at once that the memory is kept busy. */
template <typename T, int V, typename S>
__device__ static void thread_sums(const kolo_batch_norm_job &job, const S &s, const typename S::Own &own,
                                   int64_t row, int64_t step, int64_t rows, int c, float sums[2][V])
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
    sum_rows(kolo_batch_norm_job job, Tiles tiles, S s, Pair *of_blocks, unsigned *turns)
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
    Pair pair = block_pair<V>(sums, lanes);
    Pair *of_chunk = of_blocks + (int64_t)blockIdx.y * gridDim.x * channels;
    bool counts = thread < channels && first + thread < job.channels;
    if (thread < channels)
        of_chunk[blockIdx.x * channels + thread] = counts ? s.of_block(job, pair, row, first + thread, n) : Pair{0, 0};
    if (gridDim.x > 1 && !last_block(&turns[blockIdx.y], gridDim.x)) return; /* alone it has written all there is */
    __syncthreads();
    pair = blocks_pair(of_chunk, channels);
    if (counts) s.finish(job, pair, first + thread, rows);
}

/* ---- element by element ---- */

/* Rows come in the other order than in the sums: what those read last is still near. */
struct Forward {
    static const int TENSORS = 1;
    typedef Line Factors;
    float *dmean, *dvariance;
    __device__ Factors factors(const kolo_batch_norm_job &job, int c) const
    {
        Channel of = channel_of(job, c);
        return line_of(job, of, c);
    }
    __device__ float value(const kolo_batch_norm_job &job, const Factors &f, float x, float) const
    {
        float y = f.at(x);
        return job.relu && y < 0 ? 0 : y; /* NaN stays NaN */
    }
    /* What the running mean and variance are to take in, once for each sample. */
    __device__ void hand_over(const kolo_batch_norm_job &job, int c) const
    {
        if (!job.met) return;
        double samples = samples_of(job.moment, job.first, job.leaf);
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
        double n = job.met[2 * job.channels], scale = of.slope * (job.gamma ? job.gamma[c] : 1);
        double by_x = -scale * of.slope * sums[job.channels + c] / n, rounding = (double)(float)of.mean - of.mean;
        return Factors{line_of(job, of, c), (float)by_x, (float)(-scale * sums[c] / n + rounding * by_x)};
    }
    __device__ float value(const kolo_batch_norm_job &job, const Factors &f, float x, float dy) const
    {
        float dz = job.relu && f.line.at(x) <= 0 ? 0 : dy;
        return fmaf(dz, f.line.scale, fmaf(x - f.line.mean, f.by_x, f.constant));
    }
    __device__ void hand_over(const kolo_batch_norm_job &, int) const {}
};

/* The rows from `row` down, `step` apart. */
template <typename T, int V, typename F>
__device__ static void load_rows(Run<T, V> to[F::TENSORS][APPLY_ROWS], const T *x, const T *dy, int64_t row,
                                 int64_t step, int64_t channels, int c)
{
#pragma unroll
    for (int k = 0; k < APPLY_ROWS; k++) {
        int64_t at = (row - k * step) * channels + c;
        if (row - k * step < 0) continue;
        to[0][k] = *checked<Run<T, V>>(x + at);
        if (F::TENSORS > 1) to[F::TENSORS - 1][k] = *checked<Run<T, V>>(dy + at);
    }
}

/* The first rows are on their way while the channels' factors are worked out. */
template <typename T, int V, typename F>
__global__ void __launch_bounds__(THREADS, 2)
    apply(kolo_batch_norm_job job, Tiles tiles, F f, const T *__restrict__ x, const T *__restrict__ dy,
          T *__restrict__ y)
{
    typedef typename F::Factors Factors;
    __shared__ Factors of_channels[APPLY_CHANNELS];
    int thread = (int)threadIdx.x, first = (int)blockIdx.y * tiles.lanes * V, c = first + thread % tiles.lanes * V;
    int64_t counting = rows_of(job), all = job.leaf * job.rows, step = (int64_t)gridDim.x * tiles.groups;
    int64_t row = all - 1 - ((int64_t)blockIdx.x * tiles.groups + thread / tiles.lanes);
    if (c >= job.channels) row = -1;
    Run<T, V> loaded[F::TENSORS][APPLY_ROWS];
    Factors own[V];
    load_rows<T, V, F>(loaded, x, dy, row, step, job.channels, c);
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
            for (int v = 0; v < V; v++) {
                float value = f.value(job, own[v], element(loaded[0][k], v), element(loaded[F::TENSORS - 1][k], v));
                values[v] = at < counting ? value : 0;
            }
            store<T, V>(y + at * job.channels + c, values);
        }
        row -= APPLY_ROWS * step;
        if (row < 0) return;
        load_rows<T, V, F>(loaded, x, dy, row, step, job.channels, c);
    }
}

/* ---- on the host ---- */

static int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

static Tiles tiles_of_sums(const kolo_batch_norm_job *job, int V, int rows_at_once)
{
    int units = job->channels / V, lanes = 1;
    int most = V > 2 ? 4 : SUM_CHANNELS / V; /* 64 bytes side by side: narrow, so that the last block has little to do */
    while (lanes < units && lanes < most) lanes *= 2;
    int groups = THREADS / lanes;
    int64_t chunks = parts(units, lanes), blocks = parts(job->leaf * job->rows, (int64_t)groups * rows_at_once);
    int64_t limit = chunks < SUM_BLOCKS ? SUM_BLOCKS / chunks : 1;
    return Tiles{lanes, groups, dim3((unsigned)(blocks < limit ? blocks : limit), (unsigned)chunks)};
}

static Tiles tiles_of_rows(const kolo_batch_norm_job *job, int V)
{
    int64_t units = job->channels / V, chunks = parts(units * V, APPLY_CHANNELS), lanes = parts(units, chunks);
    int groups = THREADS / (int)lanes;
    int64_t blocks = parts(job->leaf * job->rows, (int64_t)groups * APPLY_ROWS);
    int64_t limit = chunks < APPLY_BLOCKS ? APPLY_BLOCKS / chunks : 1;
    return Tiles{(int)lanes, groups, dim3((unsigned)(blocks < limit ? blocks : limit), (unsigned)chunks)};
}

template <template <typename, int> class S, typename T, typename... A>
static cudaError_t sum(cudaStream_t stream, const kolo_batch_norm_job *job, void *scratch, unsigned *turns,
                       A... arguments)
{
    return with_lanes<T>(job->channels, [&](auto lanes) {
        constexpr int V = decltype(lanes)::value;
        Tiles tiles = tiles_of_sums(job, V, S<T, V>::ROWS);
        return launch(stream, tiles.blocks, THREADS, 0, sum_rows<T, V, S<T, V>>, *job, tiles, S<T, V>{arguments...},
                      (Pair *)scratch, turns);
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
            Tiles tiles = tiles_of_sums(job, decltype(lanes)::value, 1);
            bytes = sizeof(Pair) * tiles.blocks.x * tiles.blocks.y * tiles.lanes * decltype(lanes)::value;
            return cudaSuccess;
        });
    });
    return bytes;
}

cudaError_t kolo_cuda_batch_norm_moments(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                         const void *x, double *sums, void *scratch, unsigned *turns)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return sum<Moments, T>(stream, job, scratch, turns, (const T *)x, sums);
    });
}

cudaError_t kolo_cuda_batch_norm(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                 const void *x, void *y, float *dmean, float *dvariance)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return each(stream, job, Forward{dmean, dvariance}, (const T *)x, (const T *)NULL, (T *)y);
    });
}

cudaError_t kolo_cuda_batch_norm_sums(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                      const void *dy, const void *x, double *sums, float *dgamma, float *dbeta,
                                      void *scratch, unsigned *turns)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return sum<Gradients, T>(stream, job, scratch, turns, (const T *)dy, (const T *)x, sums, dgamma, dbeta);
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
