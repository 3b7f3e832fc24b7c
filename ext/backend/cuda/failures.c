/* Turns an error of CUDA into a failure with a sentence. */
#include "backend/cuda/cuda.h"

/* Errors of work that was enqueued earlier, after which every CUDA call of the process fails. */
static bool is_lost(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return true;
    default: return false;
    }
}

static const char *advice(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation: return KOLO_CUDA_ADVICE;
    case cudaErrorDevicesUnavailable:
        return ": another process has it for itself (nvidia-smi -q -d COMPUTE), or it needs a reset";
    case cudaErrorInitializationError: return ": a process that was forked after CUDA was started cannot use it";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
        return ": libkolo_cuda.so was built without code for it (make cuda CUDA_CODE=…)";
    default: return "";
    }
}

/* Clears the runtime's last error, so that no later check reports it again. */
kolo_status kolo_cuda_fail(cudaError_t error, const char *doing)
{
    cudaGetLastError();
    if (is_lost(error))
        return kolo_fail(KOLO_INTERNAL,
                         "the device is lost to this process, as was found at %s: %s (%s); begin another process, in "
                         "a notebook by %%restart",
                         doing, cudaGetErrorString(error), cudaGetErrorName(error));
    return kolo_fail(error == cudaErrorMemoryAllocation ? KOLO_MEMORY : KOLO_INTERNAL,
                     "%s on the device failed: %s (%s)%s", doing, cudaGetErrorString(error), cudaGetErrorName(error),
                     advice(error));
}
