/* The end of section 2 of kolo.h: the connections between devices, and their speed. Included by kolo.h: read that
 * first. */
#ifndef KOLO_TOPOLOGY_H
#define KOLO_TOPOLOGY_H

#include "kolo.h"

/* The largest number of devices in one report: the first ones. kolo_set_visible_devices() selects others. */
#define KOLO_PEERS_MAX 16

/* The closest hardware that connects two devices, from close to distant. Names between GPUs are those of
 * `nvidia-smi topo -m`. */
typedef enum kolo_link {
    KOLO_LINK_UNKNOWN, /* "?"    unknown */
    KOLO_LINK_SELF,    /* "X"    the device itself */
    KOLO_LINK_SAME,    /* "SAME" virtual devices on the same GPU, or on the same core: they take turns */
    KOLO_LINK_L2,      /* "L2"   cores that share a second-level cache */
    KOLO_LINK_L3,      /* "L3"   cores that share a third-level cache */
    KOLO_LINK_NVLINK,  /* "NV2"  that many NVLinks, to the other GPU or to switches that connect all GPUs */
    KOLO_LINK_PIX,     /* "PIX"  at most one PCIe bridge */
    KOLO_LINK_PXB,     /* "PXB"  several PCIe bridges, but no host bridge */
    KOLO_LINK_PHB,     /* "PHB"  a PCIe host bridge (the processor) */
    KOLO_LINK_NODE,    /* "NODE" a NUMA node: GPUs under its different host bridges, or cores that share its memory */
    KOLO_LINK_SYS,     /* "SYS"  the interconnect between NUMA nodes */
    KOLO_LINK_PEER,    /* "P2P"  unknown (NVML is missing), but direct, not through the host's memory */
    KOLO_LINK_HOST     /* "HOST" unknown (NVML is missing), through the host's memory */
} kolo_link;

typedef struct kolo_connection {
    kolo_link link;
    int nvlinks;  /* number of NVLinks for KOLO_LINK_NVLINK, else 0 */
    bool direct;  /* each device can read and write the other's memory; always true for CPU devices */
    char name[8]; /* "NV2" */
} kolo_connection;

typedef struct kolo_device_place {
    char name[32]; /* of the device */
    char cpus[64]; /* "0-19,40-59": the processors nearest to a GPU, or those of a CPU device; "": unknown */
    int numa_node; /* the nearest NUMA node; -1: unknown */
} kolo_device_place;

typedef struct kolo_topology_report {
    int count;
    kolo_device_place device[KOLO_PEERS_MAX];
    kolo_connection between[KOLO_PEERS_MAX][KOLO_PEERS_MAX];
} kolo_topology_report;

typedef struct kolo_topology_args {
    int _;
    int most; /* at most this many devices, from the first; default: all, at most KOLO_PEERS_MAX */
    kolo_guard *guard;
    bool print; /* also prints a matrix with a legend on stdout, on rank 0 */
} kolo_topology_args;

/* Reports the connection between each pair of this process's devices. For GPUs it comes from the driver (NVML). The
 * processors that this process may run on are divided among its virtual CPU devices in hwloc's order, in which
 * neighbours share most hardware. Training does not bind its threads to them: the system may move them. .count is 0 on
 * failure. Any thread. */
#define kolo_topology(...) kolo_topology_at(&(const kolo_topology_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_topology_report kolo_topology_at(const kolo_topology_args *args, kolo_here here);

/* Results for every pair of devices: row = source, column = destination. NaN: not measured. */
typedef struct kolo_peer_speeds {
    double one_way[KOLO_PEERS_MAX][KOLO_PEERS_MAX];   /* GB/s, 10^9 bytes copied a second */
    double both_ways[KOLO_PEERS_MAX][KOLO_PEERS_MAX]; /* GB/s, the sum of simultaneous copies in both directions */
    double latency[KOLO_PEERS_MAX][KOLO_PEERS_MAX];   /* µs */
} kolo_peer_speeds;

typedef struct kolo_bandwidth_report {
    int count;
    bool gpus;     /* false: CPU devices, for which only `direct` is measured */
    int64_t bytes; /* of each copy */
    char name[KOLO_PEERS_MAX][32];
    kolo_peer_speeds staged; /* without peer access: through the host's memory */
    kolo_peer_speeds direct; /* with peer access; pairs without it have the values of `staged` */
} kolo_bandwidth_report;

typedef struct kolo_peer_bandwidth_args {
    int _;
    int most; /* at most this many devices, from the first; default: all, at most KOLO_PEERS_MAX */
    kolo_guard *guard;
    int64_t bytes;  /* of one copy; default: 64 MB on GPUs, on the CPU the size of the largest cache, at least 32 MB */
    double seconds; /* approximate time of each measurement; default 0.03 */
    bool print;     /* also prints the matrices on stdout, on rank 0; as a notebook cell's value they are heat maps */
} kolo_peer_bandwidth_args;

/* Measures the copy speed between each pair of this process's devices, like NVIDIA's p2pBandwidthLatencyTest. Between
 * GPUs it times copies by the driver, with at most four times .bytes of a GPU's memory; the diagonal is a copy within
 * one GPU's memory, where reading and writing both count. CPU devices share one memory, which is measured instead: the
 * threads of one device, bound to the processors that kolo_topology() reports, read .bytes that the other's threads
 * have written, and the latency is the time until one sees a write of the other. Each result is the best of three
 * runs. Eight devices take some seconds; nothing else should run in that time. A measured GPU keeps a few hundred
 * megabytes allocated until the process ends. .count is 0 on failure. */
#define kolo_peer_bandwidth(...)                                                                                       \
    kolo_peer_bandwidth_at(&(const kolo_peer_bandwidth_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_bandwidth_report kolo_peer_bandwidth_at(const kolo_peer_bandwidth_args *args, kolo_here here);

#endif
