/* An embedding (rows of a table) and a table that is added to every sample; their gradients.
 *
 * The gradient of a row is the sum over the positions that took the row, in their order. First the positions are sorted
 * by row; each block sorts those of a slice of the table. Then segments of the sorted positions are summed. So no sum
 * waits for an atomic, and a row that half of a text takes does not keep a single block busy. */
#include "backend/cuda/device.cuh"

namespace kolo
{

static const int SLICE = 128, SORTING = 1024;    /* rows of the table and threads of a block that sorts */
static const int SEGMENT = 32, SEGMENTS = 1024;  /* positions of a segment; more if there were over SEGMENTS */
static const int AHEAD = 8;                      /* rows that a thread loads at once */

/* ---- y = table[x] ---- */

/* A warp copies the row of one position. */
template <typename T, int N>
__global__ void take_rows(const float *__restrict__ tokens, const T *__restrict__ table, T *__restrict__ y,
                          int64_t positions, int size)
{
    int lane = (int)(threadIdx.x % 32);
    for (int64_t p = thread_number() / 32; p < positions; p += thread_count() / 32) {
        const T *row = table + (int64_t)tokens[p] * size;
        for (int i = lane * N; i < size; i += 32 * N)
            *(Run<T, N> *)checked<Run<T, N>>(y + p * size + i) = *checked<Run<T, N>>(row + i);
    }
}

/* ---- the positions, sorted by row ---- */

/* Positions starts[v] … starts[v + 1] − 1 of sorted[] are those of row v, in their order. Each warp goes through its
 * part of the positions twice. First it counts those of each row of the slice. When it is known where each row begins,
 * it writes the positions there. */
__global__ void __launch_bounds__(SORTING)
    sort_positions(const float *__restrict__ tokens, const kolo_step_parameters *step_parameters,
                   kolo_embedding_job job, int *sorted, int *starts)
{
    __shared__ int places[SORTING / 32][SLICE], totals[SLICE];
    int count = samples_of(step_parameters, job.first, job.microbatch) * job.positions,
        from_row = (int)blockIdx.x * SLICE;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, own = (int)threadIdx.x, warps = SORTING / 32;
    int each = (count + SORTING - 1) / SORTING * 32, first = warp * each;
    int end = first + each < count ? first + each : count, before = 0;
    for (int i = own; i < warps * SLICE; i += SORTING) places[i / SLICE][i % SLICE] = 0;
    __syncthreads();
    for (int p = first + lane; p < end; p += 32) {
        int row = (int)tokens[p] - from_row;
        before += row < 0;
        if (row >= 0 && row < SLICE) atomicAdd(&places[warp][row], 1);
    }
    before = block_sum(before);
    if (own < SLICE) {
        totals[own] = 0;
        for (int w = 0; w < warps; w++) totals[own] += places[w][own];
    }
    __syncthreads();
    if (own < SLICE) {
        for (int row = 0; row < own; row++) before += totals[row];
        if (from_row + own < job.rows) starts[from_row + own] = before;
        if (from_row + own == job.rows - 1) starts[job.rows] = before + totals[own];
        for (int w = 0; w < warps; w++) {
            int number = places[w][own];
            places[w][own] = before;
            before += number;
        }
    }
    __syncthreads();
    for (int p = first + lane; p < first + each; p += 32) {
        int row = p < end ? (int)tokens[p] - from_row : -1;
        bool inside = row >= 0 && row < SLICE;
        if (!__any_sync(0xFFFFFFFFu, inside)) continue;
        unsigned same = __match_any_sync(0xFFFFFFFFu, inside ? (unsigned)row : ~0u);
        int rank = __popc(same & ((1u << lane) - 1));
        if (inside) sorted[places[warp][row] + rank] = p;
        __syncwarp();
        if (inside && rank == 0) places[warp][row] += __popc(same);
        __syncwarp();
    }
}

/* ---- sums of the rows ---- */

/* Writes a segment's sum of a row: to the table if all of the row's positions are in the segment; else to parts, at [2
 * · segment] if the row began before the segment, or at [2 · segment + 1] if it begins in it and ends behind it. */
template <int N> struct Flush {
    const int *starts;
    float *table, *parts;
    int size, column, first, end, segment;
    __device__ void operator()(int row, const float sum[N]) const
    {
        bool began = starts[row] >= first, ends = starts[row + 1] <= end;
        float *to = began && ends ? table + (int64_t)row * size : parts + (int64_t)(2 * segment + began) * size;
        store<float, N>(to + column, sum);
    }
};

/* A block takes one segment, a thread N columns of it. */
template <typename T, int N>
__global__ void sum_segments(const float *__restrict__ tokens, const T *__restrict__ dy, const int *__restrict__ sorted,
                             const int *__restrict__ starts, kolo_embedding_job job, int length, float *table,
                             float *parts)
{
    int first = (int)blockIdx.x * length, count = starts[job.rows],
        end = first + length < count ? first + length : count;
    int column = (int)(blockIdx.y * blockDim.x + threadIdx.x) * N, row = -1;
    if (column >= job.size || first >= end) return;
    Flush<N> flush = {starts, table, parts, job.size, column, first, end, (int)blockIdx.x};
    float sum[N] = {0};
    for (int from = first; from < end; from += AHEAD) {
        float values[AHEAD][N];
        int rows[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (from + a >= end) break;
            int64_t p = sorted[from + a];
            rows[a] = (int)tokens[p];
            load<T, N>(dy + p * job.size + column, values[a]);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (from + a >= end) break;
            if (rows[a] != row && row >= 0) flush(row, sum);
            for (int k = 0; k < N; k++) sum[k] = rows[a] == row ? sum[k] + values[a][k] : values[a][k];
            row = rows[a];
        }
    }
    flush(row, sum);
}

/* Completes the table: rows that no position took become zeros, and rows with parts the sum of these. A warp takes one
 * row. */
template <int N>
__global__ void finish_rows(const int *__restrict__ starts, const float *__restrict__ parts, kolo_embedding_job job,
                            int length, float *table)
{
    int lane = (int)(threadIdx.x % 32);
    for (int64_t row = thread_number() / 32; row < job.rows; row += thread_count() / 32) {
        int from = starts[row], end = starts[row + 1], first = from / length, last = (end - 1) / length;
        if (from < end && first == last) continue;
        for (int i = lane * N; i < job.size; i += 32 * N) {
            double sum[N] = {0};
            float value[N];
            for (int s = first; from < end && s <= last; s++) {
                load<float, N>(parts + (int64_t)(2 * s + (s == first)) * job.size + i, value);
                for (int k = 0; k < N; k++) sum[k] += (double)value[k];
            }
            for (int k = 0; k < N; k++) value[k] = (float)sum[k];
            store<float, N>(table + row * job.size + i, value);
        }
    }
}

/* ---- y = x + table, for every sample ---- */

template <typename T, int N>
__global__ void add_table(const T *__restrict__ x, const T *__restrict__ table, T *__restrict__ y, int64_t elements,
                          int microbatch)
{
    int64_t at = thread_number() * N;
    if (at >= elements) return;
    float added[N], values[N];
    load<T, N>(table + at, added);
    for (int n = (int)blockIdx.y; n < microbatch; n += (int)gridDim.y) {
        load<T, N>(x + n * elements + at, values);
        for (int k = 0; k < N; k++) values[k] += added[k];
        store<T, N>(y + n * elements + at, values);
    }
}

static const int SUMMING = 512; /* threads: 16 warps */

/* dtable = Σ over the samples. A lane has N columns, and a warp every 16th sample. */
template <typename T, int N>
__global__ void __launch_bounds__(SUMMING)
    sum_samples(const T *__restrict__ dy, const kolo_step_parameters *step_parameters, int64_t first, int microbatch,
                int64_t elements, float *table)
{
    __shared__ float sums[16][32 * N];
    int samples = samples_of(step_parameters, first, microbatch), lane = (int)threadIdx.x, warp = (int)threadIdx.y;
    int64_t at = ((int64_t)blockIdx.x * 32 + lane) * N;
    float sum[N] = {0};
    if (at < elements) {
#pragma unroll 8
        for (int n = warp; n < samples; n += 16) {
            float values[N];
            load<T, N>(dy + n * elements + at, values);
            for (int k = 0; k < N; k++) sum[k] += values[k];
        }
    }
    for (int k = 0; k < N; k++) sums[warp][lane * N + k] = sum[k];
    __syncthreads();
    for (int e = warp * 32 + lane; e < 32 * N; e += SUMMING) {
        double all = 0;
        for (int w = 0; w < 16; w++) all += (double)sums[w][e];
        if ((int64_t)blockIdx.x * 32 * N + e < elements) table[(int64_t)blockIdx.x * 32 * N + e] = (float)all;
    }
}

/* ---- launching ---- */

static bool is_aligned(const void *pointer)
{
    return (uintptr_t)pointer % 16 == 0;
}

/* Positions of a segment. */
static int segment_of(const kolo_embedding_job *job)
{
    int positions = job->microbatch * job->positions, least = (positions + SEGMENTS - 1) / SEGMENTS;
    return least > SEGMENT ? least : SEGMENT;
}
static int segments_of(const kolo_embedding_job *job)
{
    return (job->microbatch * job->positions + segment_of(job) - 1) / segment_of(job);
}

template <typename T, int N>
static cudaError_t sum_all(cudaStream_t stream, const kolo_embedding_job *job, const float *tokens, const void *dy,
                           float *table, int *sorted, int *starts, float *parts)
{
    int columns = job->size / N, threads = columns < 128 ? (columns + 31) / 32 * 32 : 128, length = segment_of(job);
    dim3 blocks((unsigned)segments_of(job), (unsigned)((columns + threads - 1) / threads));
    cudaError_t error = launch(stream, blocks, dim3((unsigned)threads), 0, sum_segments<T, N>, tokens, (const T *)dy,
                               (const int *)sorted, (const int *)starts, *job, length, table, parts);
    if (error != cudaSuccess) return error;
    return launch(stream, blocks_for((int64_t)job->rows * 32), THREADS, 0, finish_rows<N>, (const int *)starts,
                  (const float *)parts, *job, length, table);
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_embedding(cudaStream_t stream, kolo_element element, const float *tokens, const void *table,
                                void *y, int64_t positions, int size)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        const int N = Lanes<T>::count;
        auto kernel = size % N == 0 && is_aligned(table) ? take_rows<T, N> : take_rows<T, 1>;
        return launch(stream, blocks_for(positions * 32), THREADS, 0, kernel, tokens, (const T *)table, (T *)y,
                      positions, size);
    });
}

size_t kolo_cuda_embedding_scratch(const kolo_embedding_job *job)
{
    size_t sorted = (size_t)(job->microbatch * job->positions) * sizeof(int),
           starts = (size_t)(job->rows + 1) * sizeof(int);
    return kolo_align(sorted, KOLO_GPU_ALIGNMENT) + kolo_align(starts, KOLO_GPU_ALIGNMENT) +
           (size_t)(2 * segments_of(job)) * (size_t)job->size * sizeof(float);
}

cudaError_t kolo_cuda_embedding_backward(cudaStream_t stream, kolo_element element, const kolo_embedding_job *job,
                                         const kolo_step_parameters *step_parameters, const float *tokens,
                                         const void *dy, float *table, void *scratch)
{
    char *room = (char *)scratch;
    int *sorted = (int *)room,
        *starts =
            (int *)(room + kolo_align((size_t)(job->microbatch * job->positions) * sizeof(int), KOLO_GPU_ALIGNMENT));
    float *parts = (float *)((char *)starts + kolo_align((size_t)(job->rows + 1) * sizeof(int), KOLO_GPU_ALIGNMENT));
    cudaError_t error = launch(stream, dim3((unsigned)((job->rows + SLICE - 1) / SLICE)), SORTING, 0, sort_positions,
                               tokens, step_parameters, *job, sorted, starts);
    if (error != cudaSuccess) return error;
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        bool wide = job->size % 4 == 0 && is_aligned(table);
        if (wide) return sum_all<T, 4>(stream, job, tokens, dy, table, sorted, starts, parts);
        return sum_all<T, 1>(stream, job, tokens, dy, table, sorted, starts, parts);
    });
}

cudaError_t kolo_cuda_position(cudaStream_t stream, kolo_element element, const void *x, const void *table, void *y,
                               int microbatch, int64_t elements)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        const int N = Lanes<T>::count;
        bool wide = elements % N == 0 && is_aligned(table);
        dim3 blocks = dim3((unsigned)((elements / (wide ? N : 1) + THREADS - 1) / THREADS),
                           (unsigned)(microbatch < 64 ? microbatch : 64));
        return launch(stream, blocks, THREADS, 0, wide ? add_table<T, N> : add_table<T, 1>, (const T *)x,
                      (const T *)table, (T *)y, elements, microbatch);
    });
}

cudaError_t kolo_cuda_position_backward(cudaStream_t stream, kolo_element element,
                                        const kolo_step_parameters *step_parameters, int64_t first, int microbatch,
                                        int64_t elements, const void *dy, float *table)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        const int N = Lanes<T>::count;
        bool wide = elements % N == 0;
        unsigned blocks = (unsigned)((elements + 32 * (wide ? N : 1) - 1) / (32 * (wide ? N : 1)));
        return launch(stream, dim3(blocks), dim3(32, SUMMING / 32), 0, wide ? sum_samples<T, N> : sum_samples<T, 1>,
                      (const T *)dy, step_parameters, first, microbatch, elements, table);
    });
}
