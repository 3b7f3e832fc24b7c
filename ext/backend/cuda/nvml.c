/* Loads NVML at its first use: see nvml.h. */
#include "backend/cuda/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
    {"nvmlInit_v2", offsetof(kolo_nvml, start)},
    {"nvmlDeviceGetHandleByUUID", offsetof(kolo_nvml, by_uuid)},
    {"nvmlDeviceGetMemoryInfo", offsetof(kolo_nvml, memory)},
    {"nvmlDeviceGetPciInfo_v3", offsetof(kolo_nvml, pci)},
    {"nvmlDeviceGetTopologyCommonAncestor", offsetof(kolo_nvml, ancestor)},
    {"nvmlDeviceGetNvLinkState", offsetof(kolo_nvml, link_state)},
    {"nvmlDeviceGetNvLinkRemotePciInfo_v2", offsetof(kolo_nvml, link_remote)},
    {"nvmlDeviceGetNvLinkRemoteDeviceType", offsetof(kolo_nvml, link_remote_type)},
    {"nvmlDeviceGetCpuAffinity", offsetof(kolo_nvml, cpus)},
    {"nvmlDeviceGetMemoryAffinity", offsetof(kolo_nvml, memory_nodes)},
};

static struct {
    pthread_once_t once;
    kolo_nvml calls;
    bool started;
} nvml = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library) return;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        *(void **)((char *)&nvml.calls + calls[i].offset) = dlsym(library, calls[i].name);
    nvml.started = nvml.calls.start && nvml.calls.by_uuid && nvml.calls.start() == 0;
}

const kolo_nvml *kolo_nvml_open(void)
{
    pthread_once(&nvml.once, load);
    return nvml.started ? &nvml.calls : NULL;
}

void *kolo_nvml_device(const struct cudaDeviceProp *properties)
{
    static const char *const words[] = {"GPU", "MIG"};
    const kolo_nvml *library = kolo_nvml_open();
    for (int i = 0; i < 2 && library; i++) {
        char uuid[48];
        void *device = NULL;
        kolo_cuda_uuid_text(properties, words[i], uuid);
        if (library->by_uuid(uuid, &device) == 0) return device;
    }
    return NULL;
}
