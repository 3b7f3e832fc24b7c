/* NVML, NVIDIA's management library, as far as Kolo asks it. It comes with the driver, and its header with neither that
 * nor every toolkit: so it is loaded when it is first asked, and what nvml.h has of these calls stands here. They
 * return 0 where they succeed. https://docs.nvidia.com/deploy/nvml-api */
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

/* nvmlGpuTopologyLevel_t: what two devices have to go through. */
enum {
    NVML_INTERNAL = 0,
    NVML_SINGLE = 10,
    NVML_MULTIPLE = 20,
    NVML_HOSTBRIDGE = 30,
    NVML_NODE = 40,
    NVML_SYSTEM = 50
};
enum { NVML_LINKS_MAX = 36, NVML_LINK_TO_SWITCH = 2, NVML_SCOPE_NODE = 0 };

/* Any call may be NULL, in a driver that has it not. */
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

/* NULL where there is none. Any thread. */
const kolo_nvml *kolo_nvml_open(void);
/* NVML's handle of a device of these properties; NULL where it knows none. */
void *kolo_nvml_device(const struct cudaDeviceProp *properties);

/* devices.c: "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6". */
void kolo_cuda_uuid_text(const struct cudaDeviceProp *properties, const char *word, char text[48]);

#endif
