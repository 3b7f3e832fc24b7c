/* The GPUs of this machine. See backend/device_information.h.
 *
 * The driver reads CUDA_VISIBLE_DEVICES when it starts, and never again. In Kolo, notebook cells may change it at any
 * time, and Kolo applies the mask itself (runtime/devices.c). So the driver is started without the variable. Only parts
 * of GPUs (MIG) need the driver's own mask. They are masked by name, so that both masks together do no harm.
 */
#include "backend/cuda/cuda.h"
#include "backend/cuda/nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASK "CUDA_VISIBLE_DEVICES"

/* ---- the driver ---- */

static int count;

/* It is no failure if there is no driver or no device. A driver that is too old or broken causes a warning. */
static void count_devices(void)
{
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) return;
    int driver = 0, built = 0;
    count = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&built);
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        kolo_warn("computing without the GPUs: their driver is for CUDA %d.%d, libkolo_cuda.so was built with %d.%d: "
                  "wanted a newer driver, or the plugin built with an older CUDA",
                  driver / 1000, driver % 1000 / 10, built / 1000, built % 1000 / 10);
    else if (error != cudaErrorNoDevice) kolo_warn("computing without the GPUs: %s", cudaGetErrorString(error));
}

static void start(void)
{
    const char *text = getenv(MASK);
    char *mask = text && !strstr(text, "MIG-") ? strdup(text) : NULL;
    if (mask) unsetenv(MASK);
    count_devices();
    if (mask) setenv(MASK, mask, 1);
    free(mask);
}

int kolo_cuda_devices(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    return count;
}

/* ---- names ---- */

void kolo_cuda_uuid_text(const struct cudaDeviceProp *properties, const char *word, char text[48])
{
    static const char *const dashes[16] = {[4] = "-", [6] = "-", [8] = "-", [10] = "-"};
    int at = snprintf(text, 48, "%s-", word);
    for (int i = 0; i < 16; i++) {
        unsigned byte = (unsigned char)properties->uuid.bytes[i];
        at += snprintf(text + at, 48 - (size_t)at, "%s%02x", dashes[i] ? dashes[i] : "", byte);
    }
}

static bool is_called(int device, const char *entry, size_t length)
{
    struct cudaDeviceProp properties;
    char text[48];
    while (length > 0 && (entry[0] == ' ' || entry[0] == '\t')) entry++, length--;
    while (length > 0 && (entry[length - 1] == ' ' || entry[length - 1] == '\t')) length--;
    if (length <= 4 || length >= sizeof text) return false;
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    kolo_cuda_uuid_text(&properties, strncmp(entry, "MIG-", 4) == 0 ? "MIG" : "GPU", text);
    return strncmp(entry, text, length) == 0;
}

/* ---- memory ---- */

static bool ask_nvml(const struct cudaDeviceProp *properties, nvml_memory *memory)
{
    const kolo_nvml *nvml = kolo_nvml_open();
    void *handle = nvml && nvml->memory ? kolo_nvml_device(properties) : NULL;
    return handle && nvml->memory(handle, memory) == 0;
}

/* Asks NVML for the free memory, if possible. The CUDA runtime would create a context for that, which takes half a
 * gigabyte of each GPU that is described. */
static kolo_status describe(int device, char name[96], int64_t *memory_bytes, int64_t *free_bytes)
{
    struct cudaDeviceProp properties;
    nvml_memory memory;
    size_t left, total;
    KOLO_CUDA(cudaGetDeviceProperties(&properties, device), "asking what it is");
    snprintf(name, 96, "%.90s", properties.name);
    *memory_bytes = (int64_t)properties.totalGlobalMem;
    if (ask_nvml(&properties, &memory)) {
        *free_bytes = (int64_t)memory.free;
        return KOLO_OK;
    }
    KOLO_CUDA(cudaSetDevice(device), "choosing it");
    KOLO_CUDA(cudaMemGetInfo(&left, &total), "asking for its memory");
    *free_bytes = (int64_t)left;
    return KOLO_OK;
}

const kolo_device_information kolo_cuda_information = {.devices = kolo_cuda_devices,
                                                       .describe = describe,
                                                       .held = kolo_cuda_held,
                                                       .is_called = is_called,
                                                       .locate = kolo_cuda_locate,
                                                       .connect = kolo_cuda_connect,
                                                       .meter = &kolo_cuda_meter};

#define MOST_BYTES ((int64_t)32 << 30) /* for one microbatch's values, unless half of the memory is less */

int64_t kolo_cuda_microbatch_bytes(int device)
{
    char name[96];
    int64_t memory = 0, left;
    if (describe(device, name, &memory, &left) != KOLO_OK)
        kolo_failure_take(); /* opening a stream on the device reports it */
    return memory > 0 && memory / 2 < MOST_BYTES ? memory / 2 : MOST_BYTES;
}
