/* Calls that fail on purpose, and what calls leave behind: included at the end of each of the shim's headers, so that
 * whoever includes them (the plugin) calls through here. Read cuda_runtime.h first.
 *
 * Tests find the functions in the plugin by dlsym(). Every call but those that give something back can be made to fail
 * once, having done nothing; or from one call on all do, as when the device is lost. In a forked child, and in a
 * function that a stream calls, every call fails, as CUDA's do.
 */
#ifndef KOLO_SHIM_FAULTS_H
#define KOLO_SHIM_FAULTS_H

#ifdef __cplusplus
extern "C" {
#endif

/* The call with that number from now on (1: the next) fails, and with for_good all after it; 0: none. */
void kolo_shim_fail(long number, bool for_good);
/* Calls since then, and the name of the one that failed; "" while none has. */
long kolo_shim_calls(void);
const char *kolo_shim_failed(void);
/* Of all so far, the calls of that function; "a launch": of a kernel. */
long kolo_shim_calls_of(const char *call);
/* Those, of all so far, in which the host waited for a stream or an event. */
long kolo_shim_waits(void);

/* What was made and not given back. */
typedef struct kolo_shim_census {
    size_t device_bytes, host_bytes;
    int streams, events, graphs;
    size_t most_device_bytes; /* since it was asked last */
} kolo_shim_census;
kolo_shim_census kolo_shim_count(void);
/* All of it is gone: what a new process finds. */
void kolo_shim_forget(void);

/* 0, or the error that the call is to return; `error` is the one of a call that fails once. gives_back: it fails only
 * where all do. */
cudaError_t kolo_shim_fault(const char *call, cudaError_t error, bool gives_back);
/* It can fail at the first time, which makes the context. */
cudaError_t kolo_shim_set_device(int device);
/* It ends the capture, too, where it fails. */
cudaError_t kolo_shim_end_capture(cudaStream_t stream, cudaGraph_t *graph);

#ifdef __cplusplus
}
#endif
#endif

#ifndef KOLO_SHIM_INSIDE
#define KOLO_FAULT(call, error, ...)    __extension__(kolo_shim_fault(#call, error, false) ?: call(__VA_ARGS__))
#define KOLO_FAULT_BACK(call, ...)      __extension__(kolo_shim_fault(#call, cudaSuccess, true) ?: call(__VA_ARGS__))
#define KOLO_FAULT_OF(call, error, ...) (kolo_shim_fault(#call, cudaErrorUnknown, false) ? (error) : call(__VA_ARGS__))
/* What is the host's it gives back all the same. */
#define KOLO_FAULT_BACK_OF(call, error, ...)                                                                           \
    __extension__({                                                                                                    \
        __typeof__(call(__VA_ARGS__)) given_ = call(__VA_ARGS__);                                                      \
        if (kolo_shim_fault(#call, cudaSuccess, true)) given_ = error;                                                 \
        given_;                                                                                                        \
    })

#ifndef KOLO_SHIM_RUNTIME_FAULTS
#define KOLO_SHIM_RUNTIME_FAULTS
#define cudaGetDeviceProperties(...)   KOLO_FAULT(cudaGetDeviceProperties, cudaErrorUnknown, __VA_ARGS__)
#define cudaDeviceGetAttribute(...)    KOLO_FAULT(cudaDeviceGetAttribute, cudaErrorUnknown, __VA_ARGS__)
#define cudaSetDevice(...)             kolo_shim_set_device(__VA_ARGS__)
#define cudaMemGetInfo(...)            KOLO_FAULT(cudaMemGetInfo, cudaErrorUnknown, __VA_ARGS__)
#define cudaMalloc(...)                KOLO_FAULT(cudaMalloc, cudaErrorMemoryAllocation, __VA_ARGS__)
#define cudaHostAlloc(...)             KOLO_FAULT(cudaHostAlloc, cudaErrorMemoryAllocation, __VA_ARGS__)
#define cudaMemcpyAsync(...)           KOLO_FAULT(cudaMemcpyAsync, cudaErrorInvalidValue, __VA_ARGS__)
#define cudaMemsetAsync(...)           KOLO_FAULT(cudaMemsetAsync, cudaErrorInvalidValue, __VA_ARGS__)
#define cudaStreamCreateWithFlags(...) KOLO_FAULT(cudaStreamCreateWithFlags, cudaErrorMemoryAllocation, __VA_ARGS__)
#define cudaStreamSynchronize(...)     KOLO_FAULT(cudaStreamSynchronize, cudaErrorUnknown, __VA_ARGS__)
#define cudaStreamWaitEvent(...)       KOLO_FAULT(cudaStreamWaitEvent, cudaErrorInvalidValue, __VA_ARGS__)
#define cudaEventCreateWithFlags(...)  KOLO_FAULT(cudaEventCreateWithFlags, cudaErrorMemoryAllocation, __VA_ARGS__)
#define cudaEventRecord(...)           KOLO_FAULT(cudaEventRecord, cudaErrorInvalidValue, __VA_ARGS__)
#define cudaEventSynchronize(...)      KOLO_FAULT(cudaEventSynchronize, cudaErrorUnknown, __VA_ARGS__)
#define cudaLaunchHostFunc(...)        KOLO_FAULT(cudaLaunchHostFunc, cudaErrorInvalidValue, __VA_ARGS__)
#define cudaStreamBeginCapture(...)    KOLO_FAULT(cudaStreamBeginCapture, cudaErrorStreamCaptureUnsupported, __VA_ARGS__)
#define cudaGraphInstantiate(...)      KOLO_FAULT(cudaGraphInstantiate, cudaErrorMemoryAllocation, __VA_ARGS__)
#define cudaGraphLaunch(...)           KOLO_FAULT(cudaGraphLaunch, cudaErrorInvalidValue, __VA_ARGS__)
#define cudaFuncSetAttribute(...)      KOLO_FAULT(cudaFuncSetAttribute, cudaErrorInvalidValue, __VA_ARGS__)
#define cudaFuncGetAttributes(...)     KOLO_FAULT(cudaFuncGetAttributes, cudaErrorNoKernelImageForDevice, __VA_ARGS__)
#define cudaFree(...)                  KOLO_FAULT_BACK(cudaFree, __VA_ARGS__)
#define cudaFreeHost(...)              KOLO_FAULT_BACK(cudaFreeHost, __VA_ARGS__)
#define cudaStreamDestroy(...)         KOLO_FAULT_BACK(cudaStreamDestroy, __VA_ARGS__)
#define cudaEventDestroy(...)          KOLO_FAULT_BACK(cudaEventDestroy, __VA_ARGS__)
#define cudaStreamEndCapture(...)      kolo_shim_end_capture(__VA_ARGS__)
#define cudaGraphDestroy(...)          KOLO_FAULT_BACK(cudaGraphDestroy, __VA_ARGS__)
#define cudaGraphExecDestroy(...)      KOLO_FAULT_BACK(cudaGraphExecDestroy, __VA_ARGS__)
#endif

#if defined KOLO_SHIM_CUBLASLT_H && !defined KOLO_SHIM_CUBLASLT_FAULTS
#define KOLO_SHIM_CUBLASLT_FAULTS
#define KOLO_FAULT_BLAS(call, ...)                KOLO_FAULT_OF(call, CUBLAS_STATUS_ALLOC_FAILED, __VA_ARGS__)
#define KOLO_FAULT_BLAS_BACK(call, ...)           KOLO_FAULT_BACK_OF(call, CUBLAS_STATUS_INTERNAL_ERROR, __VA_ARGS__)
#define cublasLtCreate(...)                       KOLO_FAULT_BLAS(cublasLtCreate, __VA_ARGS__)
#define cublasLtMatmulDescCreate(...)             KOLO_FAULT_BLAS(cublasLtMatmulDescCreate, __VA_ARGS__)
#define cublasLtMatmulDescSetAttribute(...)       KOLO_FAULT_BLAS(cublasLtMatmulDescSetAttribute, __VA_ARGS__)
#define cublasLtMatrixLayoutCreate(...)           KOLO_FAULT_BLAS(cublasLtMatrixLayoutCreate, __VA_ARGS__)
#define cublasLtMatrixLayoutSetAttribute(...)     KOLO_FAULT_BLAS(cublasLtMatrixLayoutSetAttribute, __VA_ARGS__)
#define cublasLtMatmulPreferenceCreate(...)       KOLO_FAULT_BLAS(cublasLtMatmulPreferenceCreate, __VA_ARGS__)
#define cublasLtMatmulPreferenceSetAttribute(...) KOLO_FAULT_BLAS(cublasLtMatmulPreferenceSetAttribute, __VA_ARGS__)
#define cublasLtMatmulAlgoGetHeuristic(...)       KOLO_FAULT_BLAS(cublasLtMatmulAlgoGetHeuristic, __VA_ARGS__)
#define cublasLtMatmul(...)                       KOLO_FAULT_BLAS(cublasLtMatmul, __VA_ARGS__)
#define cublasLtDestroy(...)                      KOLO_FAULT_BLAS_BACK(cublasLtDestroy, __VA_ARGS__)
#endif

#if defined KOLO_SHIM_CUDNN_H && !defined KOLO_SHIM_CUDNN_FAULTS
#define KOLO_SHIM_CUDNN_FAULTS
#define KOLO_FAULT_DNN(call, ...)         KOLO_FAULT_OF(call, CUDNN_STATUS_INTERNAL_ERROR, __VA_ARGS__)
#define cudnnCreate(...)                  KOLO_FAULT_DNN(cudnnCreate, __VA_ARGS__)
#define cudnnSetStream(...)               KOLO_FAULT_DNN(cudnnSetStream, __VA_ARGS__)
#define cudnnBackendCreateDescriptor(...) KOLO_FAULT_DNN(cudnnBackendCreateDescriptor, __VA_ARGS__)
#define cudnnBackendFinalize(...)         KOLO_FAULT_DNN(cudnnBackendFinalize, __VA_ARGS__)
#define cudnnBackendSetAttribute(...)     KOLO_FAULT_DNN(cudnnBackendSetAttribute, __VA_ARGS__)
#define cudnnBackendGetAttribute(...)     KOLO_FAULT_DNN(cudnnBackendGetAttribute, __VA_ARGS__)
#define cudnnBackendExecute(...)          KOLO_FAULT_DNN(cudnnBackendExecute, __VA_ARGS__)
#define cudnnDestroy(...)                 KOLO_FAULT_BACK_OF(cudnnDestroy, CUDNN_STATUS_INTERNAL_ERROR, __VA_ARGS__)
#endif

#if defined KOLO_SHIM_NCCL_H && !defined KOLO_SHIM_NCCL_FAULTS
#define KOLO_SHIM_NCCL_FAULTS
#define KOLO_FAULT_NCCL(call, ...)  KOLO_FAULT_OF(call, ncclUnhandledCudaError, __VA_ARGS__)
#define ncclGetUniqueId(...)        KOLO_FAULT_NCCL(ncclGetUniqueId, __VA_ARGS__)
#define ncclCommInitRankConfig(...) KOLO_FAULT_NCCL(ncclCommInitRankConfig, __VA_ARGS__)
#define ncclCommGetAsyncError(...)  KOLO_FAULT_NCCL(ncclCommGetAsyncError, __VA_ARGS__)
#define ncclAllReduce(...)          KOLO_FAULT_NCCL(ncclAllReduce, __VA_ARGS__)
#define ncclCommFinalize(...)       KOLO_FAULT_NCCL(ncclCommFinalize, __VA_ARGS__)
#endif
#endif
