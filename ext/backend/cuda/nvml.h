/* The part of NVML, NVIDIA's management library, that Kolo uses. The library comes with the driver, but its header does
 * not, and some toolkits lack it, too. So the library is loaded at its first use, and its declarations are repeated
 * here. All calls return 0 on success. https://docs.nvidia.com/deploy/nvml-api */
#ifndef KOLO_CUDA_NVML_H
#define KOLO_CUDA_NVML_H

#include <stdbool.h>

#include <cuda_runtime.h>

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;
typedef struct nvml_pci {
    char old_name[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char name[32];
} nvml_pci;

/* nvmlGpuTopologyLevel_t: the nearest common ancestor of two devices. */
enum {
    NVML_INTERNAL = 0,
    NVML_SINGLE = 10,
    NVML_MULTIPLE = 20,
    NVML_HOSTBRIDGE = 30,
    NVML_NODE = 40,
    NVML_SYSTEM = 50
};
enum { NVML_LINKS_MAX = 36, NVML_LINK_TO_SWITCH = 2, NVML_SCOPE_NODE = 0 };

/* A call that the driver lacks is NULL; start and by_uuid never are. */
typedef struct kolo_nvml {
    int (*start)(void);
    int (*by_uuid)(const char *uuid, void **device);
    int (*memory)(void *device, nvml_memory *memory);
    int (*pci)(void *device, nvml_pci *pci);
    int (*ancestor)(void *device, void *other, int *level);
    int (*link_state)(void *device, unsigned link, int *active);
    int (*link_remote)(void *device, unsigned link, nvml_pci *pci);
    int (*link_remote_type)(void *device, unsigned link, int *type);
    int (*cpus)(void *device, unsigned words, unsigned long *cpus);
    int (*memory_nodes)(void *device, unsigned words, unsigned long *nodes, unsigned scope);
} kolo_nvml;

/* Loads and starts NVML at the first call. NULL: there is none. Any thread may call it. */
const kolo_nvml *kolo_nvml_open(void);
/* NVML's handle of the device with these properties; NULL if NVML has no such device. */
void *kolo_nvml_device(const struct cudaDeviceProp *properties);

/* devices.c: the device's name for NVML, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6". word: "GPU" or "MIG". */
void kolo_cuda_uuid_text(const struct cudaDeviceProp *properties, const char *word, char text[48]);

#endif
