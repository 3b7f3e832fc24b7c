/* NVML about the shim's devices, as far as backend/cuda/nvml.h asks it. Read machine.h here first. A device's handle is
 * its number in the machine, counted from 1. */
#include <cstdio>

#include "backend/cuda/nvml.h"
#include "machine.h"

namespace
{

enum { INVALID = 2, NOT_SUPPORTED = 3 };

int number_of(void *device)
{
    return (int)(intptr_t)device - 1;
}

/* The device at the other end of a link that is straight; -1: there is none. */
int other_end(const Machine &here, int device, unsigned link)
{
    unsigned before = 0;
    for (int other = 0; other < 8; other++) {
        before += (unsigned)here.links[device][other];
        if (link < before) return other;
    }
    return -1;
}

nvml_pci place_of(int device)
{
    nvml_pci pci = {};
    pci.bus = (unsigned)device; /* as its cudaDeviceProp has it */
    return pci;
}

} // namespace

extern "C" {

int nvmlInit_v2(void)
{
    return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    unsigned first;
    if (!machine() || sscanf(uuid, "GPU-%2x", &first) != 1) return INVALID;
    *device = (void *)(intptr_t)(((first - 0xA0) & 0xFF) / 16 + 1);
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *, nvml_memory *memory)
{
    size_t left, total;
    cudaMemGetInfo(&left, &total);
    *memory = {total, left, total - left};
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, nvml_pci *pci)
{
    *pci = place_of(number_of(device));
    return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *level)
{
    *level = machine()->levels[number_of(device) ^ number_of(other)];
    return 0;
}
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active)
{
    const Machine &here = *machine();
    if (!here.switch_links && other_end(here, number_of(device), 0) < 0) return NOT_SUPPORTED;
    *active = here.switch_links ? link < (unsigned)here.switch_links : other_end(here, number_of(device), link) >= 0;
    return link < NVML_LINKS_MAX ? 0 : INVALID;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, nvml_pci *pci)
{
    int other = other_end(*machine(), number_of(device), link);
    *pci = place_of(other >= 0 ? other : 100 + (int)link); /* a switch's */
    return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *, unsigned, int *type)
{
    *type = machine()->switch_links ? NVML_LINK_TO_SWITCH : 0;
    return 0;
}
/* A node has twenty cores, of two threads each. */
int nvmlDeviceGetCpuAffinity(void *device, unsigned words, unsigned long *cpus)
{
    int node = number_of(device) / machine()->a_node;
    for (unsigned word = 0; word < words; word++) cpus[word] = 0;
    for (int thread = 0; thread < 2; thread++)
        for (int core = 0; core < 20; core++) {
            int cpu = 20 * node + core + 40 * thread;
            if ((unsigned)cpu / 64 >= words) return INVALID;
            cpus[cpu / 64] |= 1ul << (cpu % 64);
        }
    return 0;
}
int nvmlDeviceGetMemoryAffinity(void *device, unsigned words, unsigned long *nodes, unsigned)
{
    if (words < 1) return INVALID;
    *nodes = 1ul << (number_of(device) / machine()->a_node);
    return 0;
}
}
