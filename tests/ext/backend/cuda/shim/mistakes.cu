/* Kernels with the mistakes that the shim is to find, for tests/ext/backend/cuda/shim_test.c. */
#include "backend/cuda/device.cuh"

#include <cuda_pipeline.h>

namespace
{

const int COUNT = 64; /* threads, and floats of the array */

/* The float of the thread behind this one, by way of shared memory. */
template <bool waits> __global__ void next_of_block(float *x)
{
    __shared__ float all[COUNT];
    int t = (int)threadIdx.x;
    all[t] = x[t];
    if (waits) __syncthreads();
    x[t] = all[(t + 1) % COUNT];
}

/* The same within a warp: a shuffle brings nothing in order. */
template <bool waits> __global__ void next_of_warp(float *x)
{
    __shared__ float all[COUNT];
    int t = (int)threadIdx.x;
    all[t] = x[t];
    if (waits) __syncwarp();
    else __shfl_xor_sync(~0u, 0, 1);
    x[t] = all[t / 32 * 32 + (t + 1) % 32];
}

/* Shared memory is used again before all have read it. */
__global__ void write_too_early(float *x)
{
    __shared__ float all[COUNT];
    int t = (int)threadIdx.x;
    all[t] = x[t];
    __syncthreads();
    float next = all[(t + 1) % COUNT];
    all[t] = 0;
    x[t] = next;
}

__global__ void all_blocks_write(float *x)
{
    x[0] = (float)blockIdx.x;
}

/* Each block's first thread reads what the block before it has written. */
template <bool counts> __global__ void read_other_block(float *x, unsigned *turn)
{
    if (threadIdx.x > 0) return;
    x[blockIdx.x] = 1;
    if (counts) atomicAdd(turn, 1u);
    if (blockIdx.x > 0) x[32 + blockIdx.x] = x[blockIdx.x - 1];
}

__global__ void read_behind(float *x)
{
    if (x[threadIdx.x + 1] > 0) x[0] = 1;
}
__global__ void write_behind(float *x)
{
    x[threadIdx.x + 1] = 1;
}
__global__ void write_shared_behind(float *)
{
    KOLO_SHARED_BYTES(shared);
    ((float *)shared)[threadIdx.x + 1] = 1;
}
__global__ void read_unknown_shared(float *x)
{
    __shared__ float all[COUNT];
    if (threadIdx.x > 0) all[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = all[threadIdx.x];
}
__global__ void load_misaligned(float *x)
{
    float values[4];
    kolo::load<float, 4>(x + 1, values);
    if (values[0] > 0) x[0] = 1;
}
__global__ void shuffle_with_the_gone(float *x)
{
    if (threadIdx.x % 32 == 5) return;
    x[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1);
}
__global__ void barrier_of_half(float *)
{
    if (threadIdx.x < 32) __syncthreads();
    else __shfl_xor_sync(~0u, 0, threadIdx.x == 40 ? 1 : 2), __syncwarp(threadIdx.x == 40 ? ~1u : ~0u);
}
__global__ void use_before_it_comes(float *x)
{
    __shared__ __align__(16) float all[4 * COUNT];
    int t = (int)threadIdx.x;
    __pipeline_memcpy_async(all + 4 * t, x, 16);
    __pipeline_commit();
    __syncthreads(); /* before the others have waited for theirs */
    float next = all[4 * ((t + 1) % COUNT)];
    __pipeline_wait_prior(0);
    if (next > 0) x[t] = next;
}
__global__ void large_static(float *x)
{
    __shared__ float all[8192];
    for (int i = (int)threadIdx.x; i < 8192; i += COUNT) all[i] = x[threadIdx.x];
    x[threadIdx.x] = all[8192 - COUNT + threadIdx.x];
}
__global__ void read_constant(float *x)
{
    x[threadIdx.x] = 1;
    if (__ldg(&x[threadIdx.x]) > 0) x[threadIdx.x] = 2;
}

cudaError_t record_event_of_another_device(cudaStream_t stream)
{
    cudaEvent_t event = nullptr;
    cudaError_t error = cudaSetDevice(1);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaSetDevice(0);
    return error == cudaSuccess ? cudaEventRecord(event, stream) : cudaSuccess;
}

__global__ void use_dynamic(float *x)
{
    KOLO_SHARED_BYTES(shared);
    ((float *)shared)[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = ((float *)shared)[threadIdx.x];
}

cudaError_t set_limit(size_t bytes)
{
    return cudaFuncSetAttribute((const void *)use_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

/* A launch with 100 KiB is captured; before the graph is instantiated, and again before it is launched, `between`
 * happens. */
template <typename F> cudaError_t replay_large(cudaStream_t stream, float *x, F between)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) error = kolo::launch_large(stream, dim3(1), dim3(COUNT), 100 << 10, use_dynamic, x);
    if (error != cudaSuccess) return error;
    error = cudaStreamEndCapture(stream, &graph);
    if (error == cudaSuccess) error = between(0);
    if (error == cudaSuccess) error = cudaGraphInstantiate(&executable, graph, 0);
    if (error == cudaSuccess) error = between(1);
    return error == cudaSuccess ? cudaGraphLaunch(executable, stream) : error;
}

/* Another thread's launch of the kernel, with less. */
cudaError_t launch_small(cudaStream_t stream, float *x)
{
    return kolo::launch_large(stream, dim3(1), dim3(COUNT), 50 << 10, use_dynamic, x);
}

cudaError_t start(const char *name, cudaStream_t stream, float *x, unsigned *turn, float *of_host)
{
    auto is = [&](const char *other) { return strcmp(name, other) == 0; };
    auto one = [&](void (*kernel)(float *), float *array, unsigned blocks = 1, size_t shared = 0) {
        return kolo::launch(stream, dim3(blocks), dim3(COUNT), shared, kernel, array);
    };
    if (is("right")) {
        cudaError_t error = one(next_of_block<true>, x);
        if (error == cudaSuccess) error = one(next_of_warp<true>, x);
        return error != cudaSuccess ? error
                                    : kolo::launch(stream, dim3(8), dim3(COUNT), 0, read_other_block<true>, x, turn);
    }
    if (is("a smaller launch between")) return replay_large(stream, x, [=](int) { return launch_small(stream, x); });
    if (is("a lower limit when a graph is made"))
        return replay_large(stream, x, [](int when) { return when == 0 ? set_limit(50 << 10) : cudaSuccess; });
    if (is("a lower limit when a graph is launched"))
        return replay_large(stream, x, [](int when) { return when == 1 ? set_limit(50 << 10) : cudaSuccess; });
    if (is("no barrier")) return one(next_of_block<false>, x);
    if (is("no __syncwarp")) return one(next_of_warp<false>, x);
    if (is("written too early")) return one(write_too_early, x);
    if (is("all blocks write")) return one(all_blocks_write, x, 2);
    if (is("another block's")) return kolo::launch(stream, dim3(8), dim3(COUNT), 0, read_other_block<false>, x, turn);
    if (is("reads behind")) return one(read_behind, x);
    if (is("writes behind")) return one(write_behind, x);
    if (is("writes shared behind")) return one(write_shared_behind, x, 1, COUNT * sizeof(float));
    if (is("unknown")) return one(next_of_block<true>, (float *)turn + 64);
    if (is("unknown shared")) return one(read_unknown_shared, x);
    if (is("of the host")) return one(next_of_block<true>, of_host);
    if (is("misaligned")) return one(load_misaligned, x);
    if (is("gone")) return one(shuffle_with_the_gone, x);
    if (is("half a barrier")) return one(barrier_of_half, x);
    if (is("before it comes")) return one(use_before_it_comes, x);
    if (is("too much shared")) return one(large_static, x, 1, 20 << 10);
    if (is("constant")) return one(read_constant, x);
    if (is("no blocks")) return one(all_blocks_write, x, 0);
    if (is("much dynamic")) return one(write_shared_behind, x, 1, (48 << 10) + 1);
    if (is("many threads")) return kolo::launch(stream, dim3(1), dim3(1025), 0, all_blocks_write, x);
    if (is("high grid")) return kolo::launch(stream, dim3(1, 65536), dim3(1), 0, all_blocks_write, x);
    if (is("event of another device")) return record_event_of_another_device(stream);
    return cudaErrorInvalidValue;
}

} // namespace

/* What the launch returns; where that is nothing, what waiting for it does. */
extern "C" __attribute__((visibility("default"))) int kolo_shim_mistake(const char *name)
{
    float *x = nullptr, of_host[COUNT] = {0};
    unsigned *turn = nullptr;
    cudaStream_t stream;
    cudaMalloc((void **)&x, COUNT * sizeof *x);
    cudaMalloc((void **)&turn, 1024);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMemcpyAsync(x, of_host, sizeof of_host, cudaMemcpyDefault, stream);
    cudaMemsetAsync(turn, 0, sizeof *turn, stream);
    if (strcmp(name, "touched by the host") == 0) return x[0] > 0;
    cudaError_t error = start(name, stream, x, turn, of_host);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    return error;
}
