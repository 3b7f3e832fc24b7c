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
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
enum { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaHostAllocPortable = 1, cudaHostAllocDefault = 0 };

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion;
};

typedef struct cudaUUID {
    char bytes[16];
} cudaUUID_t;
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76 };

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
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream);
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

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__   static /* one block runs at a time */
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
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

/* runtime.cpp, for other libraries' shims: work in the stream's order; whether all of that memory is the device's. */
cudaError_t kolo_shim_give(cudaStream_t stream, std::function<void()> work);
bool kolo_shim_on_device(const void *memory, size_t bytes);

/* blocks.cpp. A launch, and from within one: barriers, what lanes show one another, the block's dynamic memory. */
cudaError_t kolo_shim_launch(cudaStream_t stream, const void *kernel, dim3 blocks, dim3 threads, size_t shared,
                             std::function<void()> body);
void kolo_shim_run_blocks(dim3 blocks, dim3 threads, size_t shared, const std::function<void()> &body);
void kolo_shim_wait_block();
uint64_t kolo_shim_exchange(uint64_t own, int lane); /* what that lane of the warp brought; lanes past 31: own */
void kolo_shim_exchange_all(uint64_t own, uint64_t all[32]); /* lanes that have ended brought 0 */
unsigned char *kolo_shim_shared();

static inline void __syncthreads() { kolo_shim_wait_block(); }
static inline void __syncwarp(unsigned = ~0u) { kolo_shim_exchange(0, 0); }
static inline int kolo_shim_lane() { return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32); }
template <typename T> static inline T __shfl_sync(unsigned, T value, int lane, int width = 32)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    int own = kolo_shim_lane();
    bits = kolo_shim_exchange(bits, own / width * width + lane % width);
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
static inline unsigned __ballot_sync(unsigned, int yes)
{
    uint64_t all[32];
    unsigned mask = 0;
    kolo_shim_exchange_all(yes != 0, all);
    for (int lane = 0; lane < 32; lane++) mask |= (unsigned)all[lane] << lane;
    return mask;
}
static inline int __any_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) != 0; }
static inline unsigned __match_any_sync(unsigned, unsigned value)
{
    uint64_t all[32];
    unsigned mask = 0;
    kolo_shim_exchange_all((uint64_t)1 << 32 | value, all);
    for (int lane = 0; lane < 32; lane++) mask |= (unsigned)(all[lane] == ((uint64_t)1 << 32 | value)) << lane;
    return mask;
}
static inline int __popc(unsigned value) { return __builtin_popcount(value); }
static inline int __ffs(int value) { return __builtin_ffs(value); }
static inline void __threadfence() {} /* one thread runs at a time */
template <typename T> static inline T __ldcg(const T *from) { return *from; }
static inline unsigned atomicInc(unsigned *to, unsigned last) { unsigned old = *to; *to = old >= last ? 0 : old + 1; return old; }
template <typename T> static inline T atomicAdd(T *to, T value) { T old = *to; *to += value; return old; }
static inline int atomicMax(int *to, int value) { int old = *to; if (value > old) *to = value; return old; }
void kolo_shim_misaligned(const void *address, size_t multiple); /* says so, and ends */
template <typename T> static inline T __ldg(const T *from) { return *from; }
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float normcdff(float x) { return erfcf(-x * 0.70710678f) / 2; }
#endif

#include "faults.h"
#endif
