/* What the CUDA plugin takes of cuda_runtime.h, for a machine without a device: the plugin's own kernels, compiled for
 * the host, run block by block and thread by thread (blocks.cpp), and the calls do what the real ones promise
 * (runtime.cpp): a stream's work happens when somebody waits for it, not before. Tests include this instead of CUDA's.
 */
#ifndef KOLO_SHIM_CUDA_RUNTIME_H
#define KOLO_SHIM_CUDA_RUNTIME_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KOLO_SHIM 1

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorDevicesUnavailable = 46,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorECCUncorrectable = 214,
    cudaErrorPeerAccessUnsupported = 217,
    cudaErrorUnsupportedPtxVersion = 222,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchTimeout = 702,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorPeerAccessNotEnabled = 705,
    cudaErrorAssert = 710,
    cudaErrorHardwareStackError = 714,
    cudaErrorIllegalInstruction = 715,
    cudaErrorMisalignedAddress = 716,
    cudaErrorInvalidAddressSpace = 717,
    cudaErrorInvalidPc = 718,
    cudaErrorLaunchFailure = 719,
    cudaErrorNotPermitted = 800,
    cudaErrorSystemNotReady = 802,
    cudaErrorSystemDriverMismatch = 803,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureMerge = 902,
    cudaErrorStreamCaptureUnmatched = 903,
    cudaErrorStreamCaptureUnjoined = 904,
    cudaErrorStreamCaptureIsolation = 905,
    cudaErrorCapturedEvent = 907,
    cudaErrorUnknown = 999
} cudaError_t;
typedef struct kolo_shim_stream *cudaStream_t;
typedef struct kolo_shim_event *cudaEvent_t;
typedef struct kolo_shim_graph *cudaGraph_t;
typedef struct kolo_shim_graph *cudaGraphExec_t;
typedef void (*cudaHostFn_t)(void *argument);
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum {
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventDisableTiming = 2,
    cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2,
    cudaHostAllocDefault = 0
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes;
};

typedef struct cudaUUID {
    char bytes[16];
} cudaUUID_t;
enum cudaDeviceAttr {
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

enum cudaDeviceP2PAttr { cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported = 2 };

struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem;
    int multiProcessorCount, major, minor, pciBusID, pciDeviceID, pciDomainID;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int from, int to);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t last);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t work, void *argument);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);

#ifdef __cplusplus
}

#include <functional>
#include <memory>

#define __global__
#define __device__
#define __host__
#define __constant__    static
#define __shared__      static /* one block runs at a time */
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __restrict__ __restrict

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
extern struct kolo_shim_places {
    uint3 thread, block;
    dim3 block_size, grid_size;
} kolo_shim_place;
#define threadIdx kolo_shim_place.thread
#define blockIdx  kolo_shim_place.block
#define blockDim  kolo_shim_place.block_size
#define gridDim   kolo_shim_place.grid_size
static const int warpSize = 32;

/* runtime.cpp, for other libraries' shims: work in the stream's order; whether all of that memory is the device's. */
cudaError_t kolo_shim_give(cudaStream_t stream, std::function<void()> work);
bool kolo_shim_on_device(const void *memory, size_t bytes);

/* Code of the shim's own, in which what it does with memory is not looked at (checks.cpp). */
#define KOLO_SHIM_UNSEEN __attribute__((no_sanitize("thread")))

/* blocks.cpp. A launch, and from within one: barriers, the block's dynamic memory. */
struct kolo_shim_body {
    void (*run)(const void *arguments);
    std::shared_ptr<const void> arguments;
};
cudaError_t kolo_shim_launch(cudaStream_t stream, const void *kernel, dim3 blocks, dim3 threads, size_t shared,
                             kolo_shim_body body);
template <typename F> static inline kolo_shim_body kolo_shim_body_of(const F &call)
{
    return {[](const void *f) KOLO_SHIM_UNSEEN { (*(const F *)f)(); }, std::make_shared<F>(call)};
}
void kolo_shim_run_blocks(const void *kernel, dim3 blocks, dim3 threads, size_t shared, const kolo_shim_body &body);
void kolo_shim_wait_block();
unsigned char *kolo_shim_shared();

/* What the lanes of a warp that a mask names do together, and what they show one another: all that have not ended come
 * to the same. Of memory, __syncwarp() alone brings what they do in order. */
enum kolo_shim_meeting { KOLO_SHIM_SYNC, KOLO_SHIM_SHUFFLE, KOLO_SHIM_VOTE, KOLO_SHIM_MATCH, KOLO_SHIM_MATRIX };
struct kolo_shim_shown {
    uint64_t values[32];
    unsigned there; /* lanes that came; of the others values are 0 */
};
const kolo_shim_shown *kolo_shim_meet(kolo_shim_meeting kind, unsigned mask, uint64_t own);
uint64_t kolo_shim_from_lane(unsigned mask, uint64_t own, int lane); /* of lanes past 31: own */

/* checks.cpp: what the running thread does to memory: a read by the path that does not see what the kernel writes; and
 * an atomic operation. */
void kolo_shim_reads_constant(const void *memory, size_t bytes);
void kolo_shim_counts(void *memory, size_t bytes);
void kolo_shim_reads(const void *memory, size_t bytes);

static inline void __syncthreads()
{
    kolo_shim_wait_block();
}
static inline void __syncwarp(unsigned mask = ~0u)
{
    kolo_shim_meet(KOLO_SHIM_SYNC, mask, 0);
}
static inline int kolo_shim_lane()
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}
template <typename T> KOLO_SHIM_UNSEEN static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    int own = kolo_shim_lane();
    bits = kolo_shim_from_lane(mask, bits, own / width * width + lane % width);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int bit, int = 32)
{
    return __shfl_sync(mask, value, kolo_shim_lane() ^ bit);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    int own = kolo_shim_lane(), from = own + (int)by;
    return __shfl_sync(mask, value, from / width == own / width ? from : own);
}
KOLO_SHIM_UNSEEN static inline unsigned __ballot_sync(unsigned mask, int yes)
{
    const kolo_shim_shown *shown = kolo_shim_meet(KOLO_SHIM_VOTE, mask, yes != 0);
    unsigned ballot = 0;
    for (int lane = 0; lane < 32; lane++) ballot |= (unsigned)shown->values[lane] << lane;
    return ballot;
}
static inline int __any_sync(unsigned mask, int yes)
{
    return __ballot_sync(mask, yes) != 0;
}
KOLO_SHIM_UNSEEN static inline unsigned __match_any_sync(unsigned mask, unsigned value)
{
    const kolo_shim_shown *shown = kolo_shim_meet(KOLO_SHIM_MATCH, mask, value);
    unsigned same = 0;
    for (int lane = 0; lane < 32; lane++)
        same |= (unsigned)((shown->there >> lane & 1) && shown->values[lane] == value) << lane;
    return same;
}
static inline int __popc(unsigned value)
{
    return __builtin_popcount(value);
}
static inline int __ffs(int value)
{
    return __builtin_ffs(value);
}
static inline void __threadfence()
{
} /* one thread runs at a time */
template <typename T> static inline T __ldcg(const T *from)
{
    return *from;
}
template <typename T> KOLO_SHIM_UNSEEN static inline T atomicAdd(T *to, T value)
{
    kolo_shim_counts(to, sizeof *to);
    T old = *to;
    *to += value;
    return old;
}
void kolo_shim_misaligned(const void *address, size_t multiple); /* says so, and ends */
template <typename T> KOLO_SHIM_UNSEEN static inline T __ldg(const T *from)
{
    kolo_shim_reads_constant(from, sizeof *from);
    return *from;
}
static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
static inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}
static inline float __fdividef(float x, float y)
{
    return x / y;
}
static inline float normcdff(float x)
{
    return erfcf(-x * 0.70710678f) / 2;
}
#endif

#include "faults.h"
#endif
