/* Finds the processors and the NUMA node next to a GPU, and what connects two GPUs. NVML tells both. Without it, CUDA
 * tells of a connection only whether peer access is possible. See backend/device_information.h. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/nvml.h"

static void *handle_of(int device)
{
    struct cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, device) == cudaSuccess ? kolo_nvml_device(&properties) : NULL;
}

void kolo_cuda_locate(int device, kolo_spot *spot)
{
    const kolo_nvml *nvml = kolo_nvml_open();
    void *handle = nvml ? handle_of(device) : NULL;
    unsigned long nodes = 0;
    *spot = (kolo_spot){.numa_node = -1};
    if (!handle) return;
    if (nvml->cpus && nvml->cpus(handle, KOLO_CPU_WORDS, spot->cpus) != 0) *spot = (kolo_spot){.numa_node = -1};
    if (nvml->memory_nodes && nvml->memory_nodes(handle, 1, &nodes, NVML_SCOPE_NODE) == 0 && nodes)
        spot->numa_node = __builtin_ctzl(nodes);
}

/* ---- NVLinks ---- */

static bool same_place(const nvml_pci *a, const nvml_pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* Counts the links that are up: *straight to the device `other`, *switched to switches. */
static void count_links(const kolo_nvml *nvml, void *handle, const nvml_pci *other, int *straight, int *switched)
{
    *straight = *switched = 0;
    for (unsigned link = 0; link < NVML_LINKS_MAX && nvml->link_state; link++) {
        nvml_pci remote;
        int active = 0, type = -1;
        if (nvml->link_state(handle, link, &active) != 0 || !active) continue;
        if (nvml->link_remote_type && nvml->link_remote_type(handle, link, &type) != 0) type = -1;
        if (type == NVML_LINK_TO_SWITCH) (*switched)++;
        else if (nvml->link_remote && nvml->link_remote(handle, link, &remote) == 0 && same_place(&remote, other))
            (*straight)++;
    }
}

/* The links of a pair. If they go through switches, the device with fewer links limits the pair. */
static int links_between(const kolo_nvml *nvml, void *a, void *b)
{
    nvml_pci place_a, place_b;
    int straight, switched, back, switched_back;
    if (!nvml->pci || nvml->pci(a, &place_a) != 0 || nvml->pci(b, &place_b) != 0) return 0;
    count_links(nvml, a, &place_b, &straight, &switched);
    count_links(nvml, b, &place_a, &back, &switched_back);
    if (straight > 0) return straight;
    return switched < switched_back ? switched : switched_back;
}

/* ---- both ---- */

static kolo_link link_of(int level)
{
    switch (level) {
    case NVML_INTERNAL:
    case NVML_SINGLE: return KOLO_LINK_PIX;
    case NVML_MULTIPLE: return KOLO_LINK_PXB;
    case NVML_HOSTBRIDGE: return KOLO_LINK_PHB;
    case NVML_NODE: return KOLO_LINK_NODE;
    case NVML_SYSTEM: return KOLO_LINK_SYS;
    default: return KOLO_LINK_UNKNOWN;
    }
}

static kolo_link ask_nvml(int device, int other, int *links)
{
    const kolo_nvml *nvml = kolo_nvml_open();
    void *a = nvml ? handle_of(device) : NULL, *b = a ? handle_of(other) : NULL;
    int level = -1;
    if (!b) return KOLO_LINK_UNKNOWN;
    *links = links_between(nvml, a, b);
    if (*links > 0) return KOLO_LINK_NVLINK;
    return nvml->ancestor && nvml->ancestor(a, b, &level) == 0 ? link_of(level) : KOLO_LINK_UNKNOWN;
}

void kolo_cuda_connect(int device, int other, kolo_connection *connection)
{
    int reaches = 0, links = 0;
    kolo_link link = ask_nvml(device, other, &links);
    *connection = (kolo_connection){.link = link, .nvlinks = links};
    bool told = cudaDeviceGetP2PAttribute(&reaches, cudaDevP2PAttrAccessSupported, device, other) == cudaSuccess;
    if (!told) cudaGetLastError();
    connection->direct = told && reaches;
    if (connection->link == KOLO_LINK_UNKNOWN && told) connection->link = reaches ? KOLO_LINK_PEER : KOLO_LINK_HOST;
}
