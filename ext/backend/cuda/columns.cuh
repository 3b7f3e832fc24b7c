/* Sums over the rows of a matrix, S per column, in an order that depends on the matrix's shape alone.
 *
 * A thread takes V neighbouring columns of some rows and adds these up in floats: at most a few hundred numbers, or
 * partial sums of several. A block adds the sums of its threads in doubles, and the last block to finish adds the sums
 * of all blocks. The error is a thread's: for n terms it is below n·2^-24 of the sum of their magnitudes (Higham 2002,
 * 4.2). As the errors of thousands of threads are independent, about a hundredth of that is left in the end. */
#ifndef KOLO_CUDA_COLUMNS_CUH
#define KOLO_CUDA_COLUMNS_CUH

#include "backend/cuda/images.cuh"

namespace kolo {

/* Blocks: two on each of the 132 multiprocessors of the largest GPU that this was planned for. The number is the same
 * on every GPU, so that the bits of the sums are, too. */
static const int SUM_BLOCKS = 264;
static const int SUM_COLUMNS = 32; /* of a block, at most */

/* How a grid covers a matrix: blockIdx.x along its rows, blockIdx.y along its columns, of which a block takes `lanes`
 * times V. */
struct Tiles {
    int lanes, groups; /* a block's threads: groups of `lanes`, one row per group */
    dim3 blocks;
};

static inline int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

/* lanes is a power of two. rows_at_once: the rows that a thread loads before it goes on. */
static inline Tiles tiles_of_sums(int64_t rows, int columns, int V, int rows_at_once)
{
    int units = columns / V, lanes = 1;
    int most = V > 2 ? 4 : SUM_COLUMNS / V; /* 64 or 128 bytes of a row: few, so that the last block has little to do */
    while (lanes < units && lanes < most) lanes *= 2;
    int groups = THREADS / lanes;
    int64_t chunks = parts_of(units, lanes), blocks = parts_of(rows, (int64_t)groups * rows_at_once);
    /* SUM_BLOCKS chunks or more have one block each, which takes no ticket. So tickets[] suffice. */
    int64_t limit = chunks < SUM_BLOCKS ? SUM_BLOCKS / chunks : 1;
    return Tiles{lanes, groups, dim3((unsigned)(blocks < limit ? blocks : limit), (unsigned)chunks)};
}

/* Bytes of scratch memory for such sums. */
template <int S> static size_t bytes_of_sums(const Tiles &tiles, int V)
{
    return S * sizeof(double) * tiles.blocks.x * tiles.blocks.y * (size_t)(tiles.lanes * V);
}

template <int S> struct Columns {
    double sum[S];
};

/* Adds up the sums of a block's threads. Thread c < lanes · V gets those of column c. */
template <int S, int V> __device__ static Columns<S> block_columns(const float sums[S][V], int lanes)
{
    __shared__ float of_threads[S * V * (THREADS + SUM_COLUMNS / V)];
    __shared__ double parts[THREADS];
    int thread = (int)threadIdx.x, stride = THREADS + lanes, columns = lanes * V, outputs = S * columns;
    int groups = THREADS / lanes, slices = THREADS / outputs;
    for (int s = 0; s < S; s++)
        for (int v = 0; v < V; v++) of_threads[(s * V + v) * stride + thread] = sums[s][v];
    __syncthreads();
    int output = thread % outputs, slice = thread / outputs, c = output % columns;
    const float *from = of_threads + (output / columns * V + c % V) * stride + c / V;
    double sum = 0;
    for (int group = slice; group < groups; group += slices) sum += from[group * lanes];
    parts[thread] = sum;
    for (int half = slices / 2; half > 0; half /= 2) {
        __syncthreads();
        if (slice < half) parts[thread] += parts[thread + half * outputs];
    }
    __syncthreads();
    Columns<S> own;
    for (int s = 0; s < S; s++) own.sum[s] = thread < columns ? parts[thread + s * columns] : 0;
    return own;
}

/* Replaces a block's sums by those of the whole matrix. It returns true in one block for each blockIdx.y; there, thread
 * c < columns then has the sums of column c. of_blocks is the scratch memory; tickets are the stream's. */
template <int S>
__device__ static bool all_columns(Columns<S> *own, int columns, Columns<S> *of_blocks, unsigned *tickets)
{
    __shared__ double parts[S * THREADS];
    int thread = (int)threadIdx.x, slices = THREADS / columns, slice = thread / columns, blocks = (int)gridDim.x;
    if (blocks == 1) return true;
    of_blocks += (int64_t)blockIdx.y * blocks * columns;
    if (thread < columns) of_blocks[blockIdx.x * columns + thread] = *own;
    if (!last_block(&tickets[blockIdx.y], gridDim.x)) return false;
    for (int s = 0; s < S; s++) own->sum[s] = 0;
#pragma unroll 8
    for (int block = slice; block < blocks; block += slices)
        for (int s = 0; s < S; s++) own->sum[s] += __ldcg(&of_blocks[block * columns + thread % columns].sum[s]);
    for (int s = 0; s < S; s++) parts[s * THREADS + thread] = own->sum[s];
    for (int half = slices / 2; half > 0; half /= 2) {
        __syncthreads();
        if (slice >= half) continue;
        for (int s = 0; s < S; s++) parts[s * THREADS + thread] += parts[s * THREADS + thread + half * columns];
    }
    for (int s = 0; s < S; s++) own->sum[s] = parts[s * THREADS + thread];
    return true;
}

} // namespace kolo

#endif
