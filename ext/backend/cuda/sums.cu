/* Sums of arrays. */
#include "backend/cuda/device.cuh"

namespace kolo {

/* wide: both arrays are 16-byte aligned, and are added sixteen bytes at a time. */
__global__ void add_floats(float *to, const float *from, int64_t count, bool wide)
{
    int64_t fours = wide ? count / 4 : 0;
    for (int64_t i = thread_number(); i < fours; i += thread_count()) {
        float left[4], right[4];
        load<float, 4>(to + 4 * i, left);
        load<float, 4>(from + 4 * i, right);
        for (int k = 0; k < 4; k++) left[k] += right[k];
        store<float, 4>(to + 4 * i, left);
    }
    for (int64_t i = 4 * fours + thread_number(); i < count; i += thread_count()) to[i] += from[i];
}

/* A thread sums an element, from the first part to the last, and loads eight parts at once. */
__global__ void sum_doubles(double *sum, const char *parts, size_t stride, int number, int64_t count)
{
    for (int64_t i = thread_number(); i < count; i += thread_count()) {
        double total = 0;
#pragma unroll 8
        for (int part = 0; part < number; part++) total += ((const double *)(parts + part * stride))[i];
        sum[i] = total;
    }
}

__global__ void count_odd(const float *values, int64_t count, unsigned *counter)
{
    bool odd = false;
    for (int64_t i = thread_number(); i < count; i += thread_count()) odd = odd || !isfinite(values[i]);
    if (odd) atomicAdd(counter, 1u);
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_find_code(void)
{
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, (const void *)add_floats);
}

cudaError_t kolo_cuda_add_floats(cudaStream_t stream, float *to, const float *from, int64_t count)
{
    bool wide = ((uintptr_t)to | (uintptr_t)from) % 16 == 0;
    if (count == 0) return cudaSuccess;
    return launch(stream, blocks_for(wide ? (count + 3) / 4 : count), THREADS, 0, add_floats, to, from, count, wide);
}

cudaError_t kolo_cuda_sum_doubles(cudaStream_t stream, double *sum, const void *parts, size_t stride, int number,
                                  int64_t count)
{
    if (count == 0) return cudaSuccess;
    return launch(stream, blocks_for(count), THREADS, 0, sum_doubles, sum, (const char *)parts, stride, number, count);
}

cudaError_t kolo_cuda_count_odd(cudaStream_t stream, const float *values, int64_t count, unsigned *counter)
{
    if (count == 0) return cudaSuccess;
    return launch(stream, blocks_for(count), THREADS, 0, count_odd, values, count, counter);
}
