/* Weights and gradients: conversions and transposes. Arrays of the whole model begin anywhere, so nothing here asks
 * for more than an element's own alignment. */
#include "backend/cuda/device.cuh"

namespace kolo {

template <typename T>
__global__ void pack_plain(const float *__restrict__ from, T *__restrict__ to, int64_t count)
{
    const int AHEAD = 4;
    for (int64_t i = thread_number(); i < count; i += AHEAD * thread_count()) {
        float values[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * thread_count() < count) values[k] = from[i + k * thread_count()];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * thread_count() < count) narrow(values[k], &to[i + k * thread_count()]);
    }
}

/* to[column][row] = from[row][column], by squares of 32 that turn in shared memory. */
template <typename T>
__global__ void pack_transposed(const float *__restrict__ from, T *__restrict__ to, int64_t rows, int64_t columns)
{
    __shared__ float square[32][33];
    int64_t across = (columns + 31) / 32, row = blockIdx.x / across * 32, column = blockIdx.x % across * 32;
    int x = (int)threadIdx.x % 32;
    for (int y = (int)threadIdx.x / 32; y < 32; y += THREADS / 32)
        if (row + y < rows && column + x < columns) square[y][x] = from[(row + y) * columns + column + x];
    __syncthreads();
    for (int y = (int)threadIdx.x / 32; y < 32; y += THREADS / 32)
        if (row + x < rows && column + y < columns) narrow(square[x][y], &to[(column + y) * rows + row + x]);
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_pack_plain(cudaStream_t stream, const float *from, kolo_element element, void *to, int64_t count)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return launch(stream, blocks_for((count + 3) / 4), THREADS, 0, pack_plain<T>, from, (T *)to, count);
    });
}

cudaError_t kolo_cuda_pack_transposed(cudaStream_t stream, const float *from, kolo_element element, void *to,
                                      int64_t rows, int64_t columns)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        unsigned squares = (unsigned)((rows + 31) / 32 * ((columns + 31) / 32));
        return launch(stream, squares, THREADS, 0, pack_transposed<T>, from, (T *)to, rows, columns);
    });
}
