/* The end of section 2 of kolo.h: what joins the devices, and how fast it is. Included by kolo.h: read that first. */
#ifndef KOLO_TOPOLOGY_H
#define KOLO_TOPOLOGY_H

#include "kolo.h"

/* Devices that one call tells of: the first ones. kolo_set_visible_devices() chooses others. */
#define KOLO_PEERS_MAX 16

/* What two devices meet in, the closest first. Names of GPUs' are those of `nvidia-smi topo -m`. */
typedef enum kolo_link {
    KOLO_LINK_UNKNOWN, /* "?"    nobody could tell */
    KOLO_LINK_SELF,    /* "X"    the device itself */
    KOLO_LINK_SAME,    /* "SAME" virtual devices on the same GPU, or on the same core: they take turns */
    KOLO_LINK_L2,      /* "L2"   cores that share a second-level cache */
    KOLO_LINK_L3,      /* "L3"   cores that share a third-level cache */
    KOLO_LINK_NVLINK,  /* "NV2"  NVLinks, that many: straight to the other GPU, or to switches that reach all */
    KOLO_LINK_PIX,     /* "PIX"  at most one PCIe bridge */
    KOLO_LINK_PXB,     /* "PXB"  several PCIe bridges, but no host bridge */
    KOLO_LINK_PHB,     /* "PHB"  a PCIe host bridge: the processor */
    KOLO_LINK_NODE,    /* "NODE" a NUMA node: between its host bridges, or its memory alone */
    KOLO_LINK_SYS,     /* "SYS"  what joins the NUMA nodes */
    KOLO_LINK_PEER,    /* "P2P"  by a way that is unknown (there is no NVML), but straight, past the host's memory */
    KOLO_LINK_HOST     /* "HOST" likewise unknown, and through the host's memory */
} kolo_link;

typedef struct kolo_connection {
    kolo_link link;
    int nvlinks;  /* of KOLO_LINK_NVLINK, else 0 */
    bool direct;  /* one can read and write the other's memory; always so on the CPU */
    char name[8]; /* "NV2" */
} kolo_connection;

typedef struct kolo_device_place {
    char name[32]; /* of the device */
    char cpus[64]; /* "0-19,40-59": the processors that are nearest to a GPU, or a CPU device's share; "": unknown */
    int numa_node; /* of the memory that is nearest; -1: unknown */
} kolo_device_place;

typedef struct kolo_topology_report {
    int count;
    kolo_device_place device[KOLO_PEERS_MAX];
    kolo_connection between[KOLO_PEERS_MAX][KOLO_PEERS_MAX];
} kolo_topology_report;

typedef struct kolo_topology_args {
    int _;
    int most; /* the first so many devices; default: all, at most KOLO_PEERS_MAX */
    kolo_guard *guard;
    bool print; /* a matrix with its legend on stdout too, from rank 0 */
} kolo_topology_args;

/* What connects each pair of this process's devices. Of GPUs the driver says it (NVML). A virtual CPU device stands for
 * its share of the processors that this process may run on, dealt in hwloc's order, in which neighbours share most;
 * training leaves its threads to the system, which may move them. .count is 0 on failure. Any thread. */
#define kolo_topology(...) kolo_topology_at(&(const kolo_topology_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_topology_report kolo_topology_at(const kolo_topology_args *args, kolo_here here);

/* Figures of every pair; NaN: not measured. Rows are the devices that bytes come from, columns those that get them. */
typedef struct kolo_peer_speeds {
    double one_way[KOLO_PEERS_MAX][KOLO_PEERS_MAX];   /* GB/s: 10^9 bytes copied a second */
    double both_ways[KOLO_PEERS_MAX][KOLO_PEERS_MAX]; /* the sum of both, at the same time */
    double latency[KOLO_PEERS_MAX][KOLO_PEERS_MAX];   /* µs */
} kolo_peer_speeds;

typedef struct kolo_bandwidth_report {
    int count;
    bool gpus;     /* else they are CPU devices, which have `direct` alone */
    int64_t bytes; /* of each copy */
    char name[KOLO_PEERS_MAX][32];
    kolo_peer_speeds staged; /* peer access off: through the host's memory */
    kolo_peer_speeds direct; /* peer access on, of pairs that have it; the others' as in `staged` */
} kolo_bandwidth_report;

typedef struct kolo_peer_bandwidth_args {
    int _;
    int most; /* the first so many devices; default: all, at most KOLO_PEERS_MAX */
    kolo_guard *guard;
    int64_t bytes;  /* of one copy; default: of GPUs 64 MB, on the CPU as the largest cache, at least 32 MB */
    double seconds; /* that a figure takes, about; default 0.03 */
    bool print;     /* the matrices on stdout too, from rank 0; as a cell's value they are heat maps */
} kolo_peer_bandwidth_args;

/* Measures how fast each pair of this process's devices copies, as NVIDIA's p2pBandwidthLatencyTest does: of GPUs the
 * copies that the driver makes, at most four times .bytes of a GPU's memory; the diagonal is a GPU's own memory, whose
 * reading and writing both count. CPU devices have one memory, so what is measured is that memory: threads of the one,
 * bound to its processors as kolo_topology() has them, read .bytes that the other's have written, and a latency is how
 * long what one has written takes to be seen by the other. A figure is the best of three runs; eight devices take some
 * seconds, in which nothing else should run.
 * A GPU that was looked at holds a few hundred megabytes more until the process ends. .count is 0 on failure. */
#define kolo_peer_bandwidth(...)                                                                                       \
    kolo_peer_bandwidth_at(&(const kolo_peer_bandwidth_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_bandwidth_report kolo_peer_bandwidth_at(const kolo_peer_bandwidth_args *args, kolo_here here);

#endif
