/* The common part of all .cu files: launches, elements as floats, sixteen bytes at a time, sums over a block.
 *
 * Kernels use only what CUDA and the tests' shim have in common: barriers, shuffles, and shared memory through
 * KOLO_SHARED_BYTES. A kernel gives the same bits whenever it runs: no sum depends on the order of atomics. */
#ifndef KOLO_CUDA_DEVICE_CUH
#define KOLO_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "backend/cuda/kernels.h"

namespace kolo
{

/* ---- launching ---- */

#ifdef KOLO_SHIM
#define KOLO_SHARED_BYTES(name) unsigned char *name = kolo_shim_shared()
#else
#define KOLO_SHARED_BYTES(name) extern __shared__ __align__(128) unsigned char name[]
#endif

template <typename... Parameters, typename... Arguments>
static cudaError_t launch(cudaStream_t stream, dim3 blocks, dim3 threads, size_t shared, void (*kernel)(Parameters...),
                          Arguments... arguments)
{
    cudaGetLastError(); /* clears an error that another call left */
#ifdef KOLO_SHIM
    return kolo_shim_launch(stream, (const void *)kernel, blocks, threads, shared,
                            kolo_shim_body_of([=]() KOLO_SHIM_UNSEEN { kernel(arguments...); }));
#else
    kernel<<<blocks, threads, shared, stream>>>(arguments...);
    return cudaGetLastError();
#endif
}

/* A kernel's limit of dynamic shared memory belongs to the kernel and the device; all threads and captured graphs share
 * it. So it is raised once, to the most that the device has, and never lowered. */
static inline cudaError_t raise_shared_limit(const void *kernel, size_t wanted)
{
    int device = 0, most = 0;
    cudaFuncAttributes now;
    cudaError_t error = cudaFuncGetAttributes(&now, kernel);
    if (error != cudaSuccess || (size_t)now.maxDynamicSharedSizeBytes >= wanted) return error;
    error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most - (int)now.sharedSizeBytes);
}

/* Launches with more shared memory than a block has by default. */
template <typename Kernel, typename... Arguments>
static cudaError_t launch_large(cudaStream_t stream, dim3 blocks, dim3 threads, size_t shared, Kernel *kernel,
                                Arguments... arguments)
{
    cudaError_t error = raise_shared_limit((const void *)kernel, shared);
    if (error != cudaSuccess) return error;
    return launch(stream, blocks, threads, shared, kernel, arguments...);
}

static const int THREADS = 256;
static const int64_t BLOCKS_MAX = 4096; /* about 30 per multiprocessor; their threads loop over the rest */

static inline dim3 blocks_for(int64_t threads)
{
    int64_t blocks = (threads + THREADS - 1) / THREADS;
    return dim3((unsigned)(blocks < 1 ? 1 : blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks));
}
__device__ static inline int64_t thread_number()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ static inline int64_t thread_count()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* Calls f with a value of the element's type: `return with(element, [&](auto zero) { typedef decltype(zero) T; … });`
 */
template <typename F> static cudaError_t with(kolo_element element, F f)
{
    switch (element) {
    case KOLO_ELEMENT_BFLOAT16: return f(__nv_bfloat16());
    case KOLO_ELEMENT_HALF: return f(__half());
    default: return f(0.0f);
    }
}

/* ---- elements ---- */

__device__ static inline float wide(float value)
{
    return value;
}
__device__ static inline float wide(__nv_bfloat16 value)
{
    return __bfloat162float(value);
}
__device__ static inline float wide(__half value)
{
    return __half2float(value);
}
__device__ static inline void narrow(float value, float *to)
{
    *to = value;
}
__device__ static inline void narrow(float value, __nv_bfloat16 *to)
{
    *to = __float2bfloat16_rn(value);
}
__device__ static inline void narrow(float value, __half *to)
{
    *to = __float2half_rn(value);
}

/* N neighbouring elements, which are read and written at once. Their address is a multiple of their size. */
template <typename T, int N> struct alignas(sizeof(T) * N) Run {
    T at[N];
};
/* The number of elements in sixteen bytes. */
template <typename T> struct Lanes {
    static const int count = 16 / (int)sizeof(T);
};

/* The address as a pointer to an R. The shim ends the program where a device would: if the address is misaligned. */
template <typename R> __device__ static inline const R *checked(const void *address)
{
#ifdef KOLO_SHIM
    if ((uintptr_t)address % alignof(R) != 0) kolo_shim_misaligned(address, alignof(R));
#endif
    return (const R *)address;
}

template <typename T, int N> __device__ static inline void load(const T *from, float values[N])
{
    Run<T, N> run = *checked<Run<T, N>>(from);
    for (int i = 0; i < N; i++) values[i] = wide(run.at[i]);
}
template <typename T, int N> __device__ static inline void store(T *to, const float values[N])
{
    Run<T, N> run;
    checked<Run<T, N>>(to);
    for (int i = 0; i < N; i++) narrow(values[i], &run.at[i]);
    *(Run<T, N> *)to = run;
}

/* Writes N neighbours from element i on, to an array whose element is known only at run time. */
template <int N> __device__ static inline void put(kolo_element element, void *to, int64_t i, const float values[N])
{
    switch (element) {
    case KOLO_ELEMENT_BFLOAT16: store<__nv_bfloat16, N>((__nv_bfloat16 *)to + i, values); break;
    case KOLO_ELEMENT_HALF: store<__half, N>((__half *)to + i, values); break;
    default: store<float, N>((float *)to + i, values);
    }
}

/* ---- sums ---- */

/* The sum over a warp's 32 lanes, on each of them. */
template <typename T> __device__ static inline T warp_sum(T value)
{
    for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, by);
    return value;
}
template <typename T> __device__ static inline T warp_largest(T value)
{
    for (int by = 16; by > 0; by /= 2) {
        T other = __shfl_xor_sync(0xFFFFFFFFu, value, by);
        value = other > value ? other : value;
    }
    return value;
}

/* The sum over a block of whole warps, on each thread. All threads must call it. */
template <typename T> __device__ static inline T block_sum(T value)
{
    __shared__ T of_warps[32];
    int warps = (int)(blockDim.x / 32), warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32);
    value = warp_sum(value);
    __syncthreads(); /* threads may still read the previous sums */
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    return warp_sum(lane < warps ? of_warps[lane] : T(0));
}

/* ---- the last block ---- */

/* For kernels whose last block adds up what all blocks have written. Every thread of every block calls it behind its
 * writes, once for each use. It returns true in the last block only, which then reads the writes by __ldcg(). ticket:
 * one of the stream's KOLO_TICKETS. */
__device__ static inline bool last_block(unsigned *ticket, unsigned blocks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1u) == blocks - 1;
        if (last) *ticket = 0; /* for the next launch */
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* ---- samples ---- */

/* How many of the microbatch's samples count. Its first sample is number `first` of the batch. */
__device__ static inline int samples_of(const kolo_step_parameters *step_parameters, int64_t first, int microbatch)
{
    int64_t left = step_parameters->samples - first;
    return left < 0 ? 0 : left < microbatch ? (int)left : microbatch;
}

} // namespace kolo

#endif
