/* A bias and a ReLU in a pass of their own. The backward pass reads dy and y once, and writes dz and the sums over its
 * rows.
 *
 * In the backward pass a block takes up to ACROSS · N neighbouring columns of every so many rows, and a thread N
 * columns. Blocks that share columns write their sums to scratch memory, and the last of them adds these up in
 * double. */
#include "backend/cuda/device.cuh"

namespace kolo
{

static const int ACROSS = 32, AHEAD = 4; /* threads of a block along a row; rows that a thread loads at once */
static const int TALL = 132, MANY = 264; /* the most blocks along the rows; the most in all, if the columns allow it */

struct Matrix {
    int64_t rows;
    int columns; /* of N elements each */
};

/* to[e] = the sum of column e over the block's `down` rows of threads. A row has `across` threads of N columns each. */
template <int N> __device__ static void sum_rows(const float sums[N], int across, int down, float *to)
{
    __shared__ float all[THREADS * N];
    for (int k = 0; k < N; k++) all[threadIdx.x * N + k] = sums[k];
    __syncthreads();
    for (int e = (int)threadIdx.x; e < across * N; e += THREADS) {
        float sum = 0;
        for (int r = 0; r < down; r++) sum += all[r * across * N + e];
        to[e] = sum;
    }
}

/* to[e] = Σ parts[p · stride + e]. Groups of `count` threads take the parts in turn; then the groups are added. */
__device__ static void sum_parts(const float *parts, int number, int64_t stride, int count, float *to)
{
    __shared__ double all[THREADS];
    int groups = THREADS / count, group = (int)threadIdx.x / count, e = (int)threadIdx.x % count;
    double sum = 0;
    if (group < groups) {
#pragma unroll 8
        for (int p = group; p < number; p += groups) sum += (double)__ldcg(&parts[p * stride + e]);
    }
    all[threadIdx.x] = sum;
    __syncthreads();
    if (group > 0) return;
    for (int g = 1; g < groups; g++) sum += all[g * count + e];
    to[e] = (float)sum;
}

template <typename D, typename T, int N>
__global__ void bias_backward(Matrix m, const D *__restrict__ dy, const T *__restrict__ y, T *__restrict__ dz,
                              float *dbias, float *parts, unsigned *tickets)
{
    int across = m.columns < ACROSS ? m.columns : ACROSS, down = THREADS / across;
    int x = (int)threadIdx.x % across, below = (int)threadIdx.x / across;
    int column = (int)blockIdx.y * across + x;
    int64_t width = (int64_t)m.columns * N, step = (int64_t)gridDim.x * down;
    float sums[N] = {0};
    bool works = below < down && column < m.columns;
    for (int64_t row = (int64_t)blockIdx.x * down + below; works && row < m.rows; row += AHEAD * step) {
        float values[AHEAD][N], masks[AHEAD][N];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            int64_t at = (row + a * step) * width + (int64_t)column * N;
            if (row + a * step < m.rows) load<D, N>(dy + at, values[a]);
            if (y && row + a * step < m.rows) load<T, N>(y + at, masks[a]);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (row + a * step >= m.rows) break;
            Run<T, N> rounded;
#pragma unroll
            for (int k = 0; k < N; k++) {
                narrow(y && masks[a][k] <= 0 ? 0 : values[a][k], &rounded.at[k]);
                sums[k] += wide(rounded.at[k]);
            }
            if (dz) *(Run<T, N> *)checked<Run<T, N>>(dz + (row + a * step) * width + (int64_t)column * N) = rounded;
        }
    }
    if (!dbias) return;
    int here = (m.columns - (int)blockIdx.y * across < across ? m.columns - (int)blockIdx.y * across : across) * N;
    int64_t first = (int64_t)blockIdx.y * across * N;
    __shared__ float own[ACROSS * N];
    sum_rows<N>(sums, across, down, own);
    __syncthreads();
    float *to = gridDim.x == 1 ? dbias : parts + blockIdx.x * width;
    if ((int)threadIdx.x < here) to[first + threadIdx.x] = own[threadIdx.x];
    if (gridDim.x > 1 && last_block(&tickets[blockIdx.y], gridDim.x))
        sum_parts(parts + first, (int)gridDim.x, width, here, dbias + first);
}

/* A thread takes runs of N elements. `column` is the run's number in its row. */
template <typename T, int N>
__global__ void bias_forward(Matrix m, const float *__restrict__ bias, bool relu, T *__restrict__ y)
{
    int64_t count = m.rows * m.columns;
    int column = (int)(thread_number() % m.columns), step = (int)(thread_count() % m.columns);
    for (int64_t e = thread_number(); e < count; e += thread_count(), column += step) {
        float values[N];
        if (column >= m.columns) column -= m.columns;
        load<T, N>(y + e * N, values);
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (bias) values[k] += bias[column * N + k];
            if (relu && values[k] < 0) values[k] = 0;
        }
        store<T, N>(y + e * N, values);
    }
}

/* The grid for `columns` columns of N elements: x along the rows, y along the columns. It does not depend on the
 * device, so neither do the sums. */
static dim3 blocks_of(int64_t rows, int columns)
{
    int across = columns < ACROSS ? columns : ACROSS, side = (columns + across - 1) / across;
    int64_t rounds = (rows + THREADS / across * AHEAD - 1) / (THREADS / across * AHEAD), most = MANY / side;
    most = most < 1 || side > KOLO_TICKETS ? 1 : most > TALL ? TALL : most;
    return dim3((unsigned)(rounds < most ? rounds : most), (unsigned)side);
}

template <typename D, typename T, int N> static cudaError_t backward(cudaStream_t stream, const kolo_bias_job *job)
{
    Matrix m = {job->rows, job->width / N};
    return launch(stream, blocks_of(m.rows, m.columns), THREADS, 0, bias_backward<D, T, N>, m, (const D *)job->dy,
                  (const T *)job->y, (T *)job->dz, job->dbias, (float *)job->scratch, job->tickets);
}

template <typename T, int N>
static cudaError_t forward(cudaStream_t stream, int64_t rows, int width, const float *bias, bool relu, void *y)
{
    Matrix m = {rows, width / N};
    return launch(stream, blocks_for(m.rows * m.columns), THREADS, 0, bias_forward<T, N>, m, bias, relu, (T *)y);
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_bias_forward(cudaStream_t stream, kolo_element element, int64_t rows, int width,
                                   const float *bias, bool relu, void *y)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        if (width % Lanes<T>::count == 0) return forward<T, Lanes<T>::count>(stream, rows, width, bias, relu, y);
        return forward<T, 1>(stream, rows, width, bias, relu, y);
    });
}

/* Enough for any element. */
size_t kolo_cuda_bias_scratch(int64_t rows, int width)
{
    unsigned parts = 0;
    for (int n = 1; n <= 8; n *= 2) {
        unsigned number = blocks_of(rows, (width + n - 1) / n).x;
        if (number > parts) parts = number;
    }
    return (size_t)parts * (size_t)width * sizeof(float);
}

cudaError_t kolo_cuda_bias_backward(cudaStream_t stream, const kolo_bias_job *job)
{
    return with(job->element, [&](auto zero) {
        typedef decltype(zero) T;
        bool same = job->dy_element == job->element, wide_runs = job->width % Lanes<T>::count == 0;
        if (same && wide_runs) return backward<T, T, Lanes<T>::count>(stream, job);
        if (same) return backward<T, T, 1>(stream, job);
        return wide_runs ? backward<float, T, Lanes<T>::count>(stream, job) : backward<float, T, 1>(stream, job);
    });
}
