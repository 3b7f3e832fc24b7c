/* Section 10c of kolo.h: a model of the links between devices, and how long collectives and training steps would take on
 * them. Included by kolo.h: read that first.
 *
 * Every time here is modelled: it is calculated from bandwidths and latencies, and nothing is measured or moved, so a
 * laptop can ask how an all-reduce of 16,384 devices would do. What the program shows of it must say so.
 *
 * A machine is a graph. Its nodes are devices, switches (PCIe or NVSwitch), NICs, and hosts (a processor with its memory).
 * Its links join two nodes, with the same bandwidth in each direction at once, and a latency. A transfer takes the route
 * that delivers a megabyte first; it never passes through another device. A cluster is several hosts of one kind whose
 * NICs reach each other through a network that never blocks. Devices are numbered host by host.
 *
 * A collective is a schedule of rounds, in each of which some devices send to others. A round lasts as long as its slowest
 * transfer: the latencies of its links, and the largest (bytes on a link) / (bandwidth of the link) on its way, where the
 * bytes are those of all transfers of the round that cross the link in that direction. The next round begins then.
 */
#ifndef KOLO_LINK_MODEL_H
#define KOLO_LINK_MODEL_H

#include "kolo.h"

typedef struct kolo_link_model kolo_link_model;

typedef struct kolo_link_model_args {
    int _;
    /* The name of a machine, or the path of a JSON file, which has a / or ends in .json. The machines:
     *   "dgx-1v"       8 V100, 6 NVLinks each, 4 NICs; its bandwidths are those that p2pBandwidthLatencyTest printed there
     *   "dgx-a100"     8 A100 on NVSwitch, 300 GB/s each way, 8 NICs; "dgx-h100": 450 GB/s. Peak figures of the vendor
     *   "pcie-8"       8 GPUs on PCIe 3 switches, two of them to a switch, 1 NIC; "pcie-4": the first half of it
     *   "pcie-risers"  7 GPUs, each behind one PCIe lane (0.76 GB/s), as rossumai/keras-multi-gpu measured on 7gforce
     *   "azure-m60"    4 GPUs without peer access at 6 GB/s to the host, as it measured on az-4x-m60 */
    const char *machine;
    kolo_guard *guard;
    int hosts; /* number of such machines, at most 65536; default: the file's, else 1 */
    /* The network between several hosts, for each NIC and direction: "ethernet-1", "ethernet-10", "roce-25" (25 Gb/s),
     * "ib-edr" (100), "ib-hdr" (200), "ib-ndr" (400). Default: the file's, else "ib-edr". */
    const char *network;
    const char *devices; /* "0,3": only these devices of the machine, renumbered in this order; default: all */
    /* "gpu0-plx0:0.76": this link of the machine, or of each host, has so many GB/s each way, from 1e-6 to 1e6. The names
     * of a file's nodes; of the machines above "gpu0", "plx0" (a PCIe switch), "cpu0", "nic0", "nvswitch" */
    const char *link;
    bool no_peer_access; /* devices reach each other only through a host's memory, as with NCCL_P2P_DISABLE=1 */
} kolo_link_model_args;

/* Makes the model of a machine or a cluster. NULL on failure: an unknown name, a file that is not such a machine, a device
 * that nothing connects. A file looks like this; "hosts" and "network" may be missing:
 *
 *     {"nodes": [{"name": "gpu0", "kind": "device"}, {"name": "gpu1", "kind": "device"}, {"name": "cpu0", "kind": "host"},
 *                {"name": "nic0", "kind": "nic"}, {"name": "plx0", "kind": "switch"}],
 *      "links": [{"from": "gpu0", "to": "plx0", "kind": "PIX", "gigabytes_per_second": 12.0, "microseconds": 0.5}, …],
 *      "hosts": 4,
 *      "network": {"kind": "IB", "gigabytes_per_second": 12.5, "microseconds": 1.5}}
 *
 * A link is written once, and works in both directions. Its kind is for people: NV2, PIX, PHB, SYS, IB, Ethernet. At most
 * 64 nodes and 256 links. Any thread; the caller frees the model. */
#define kolo_link_model_open(...)                                                                                      \
    kolo_link_model_open_at(&(const kolo_link_model_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_link_model *kolo_link_model_open_at(const kolo_link_model_args *args, kolo_here here);
void kolo_link_model_free(kolo_link_model **model);

/* "dgx-a100", or "4 x dgx-a100, ib-hdr". "" for NULL. Valid as long as the model. */
const char *kolo_link_model_name(const kolo_link_model *model);
/* The number of devices on all hosts; 0 for NULL. */
int kolo_link_model_devices(const kolo_link_model *model);
/* The number of hosts, each with the same number of devices; 0 for NULL. */
int kolo_link_model_hosts(const kolo_link_model *model);

/* The modelled speed between two devices, in the units of kolo_peer_bandwidth(). NaN on failure, or for from = to. */
typedef struct kolo_modelled_pair {
    double one_way;   /* GB/s */
    double both_ways; /* GB/s, the sum of simultaneous copies in both directions */
    double latency;   /* µs of a message without bytes */
    char kind[12];    /* of the link with the smallest bandwidth on the way: "NV2"; "" on failure */
} kolo_modelled_pair;
#define kolo_link_model_pair(model, from, to) kolo_link_model_pair_at(model, from, to, KOLO_HERE)
kolo_modelled_pair kolo_link_model_pair_at(const kolo_link_model *model, int from, int to, kolo_here here);

typedef enum kolo_modelled_operation {
    KOLO_MODELLED_ALLREDUCE, /* the default */
    KOLO_MODELLED_BROADCAST,
    KOLO_MODELLED_REDUCE_SCATTER,
    KOLO_MODELLED_ALLGATHER
} kolo_modelled_operation;

/* For N devices, S bytes. A ring within a host is the one with the most bandwidth (of all orders of up to 8 devices); with
 * many NVLinks there are several rings at once, each with its share of the bytes. Across hosts there is a ring for each
 * NIC that leaves a host at a device near this NIC. */
typedef enum kolo_algorithm {
    KOLO_ALGORITHM_FASTEST, /* the default: the fastest of ring, tree and hierarchical */
    /* All-reduce: 2(N−1) rounds of S/N bytes to the next device (Patarasuk and Yuan 2009). Reduce-scatter, all-gather: N−1
     * such rounds. Broadcast: a chain of N−1 links through which pieces follow each other. */
    KOLO_ALGORITHM_RING,
    /* Two binary trees at once, each with half of the bytes, in which a leaf of one is an inner node of the other (Sanders,
     * Speck and Träff 2009). Pieces follow each other up and down; their number, a power of two, is the best one.
     * All-reduce and broadcast only. */
    KOLO_ALGORITHM_TREE,
    /* Reduce-scatter in each host, a ring all-reduce between the devices of the same number on all hosts, all-gather in each
     * host: Horovod's hierarchical all-reduce. All-reduce only, and only with whole hosts. */
    KOLO_ALGORITHM_HIERARCHICAL,
    /* Each device sends S bytes to the memory of the first host, which sends S bytes back: a parameter server on the CPU.
     * All-reduce only. */
    KOLO_ALGORITHM_PARAMETER_SERVER
} kolo_algorithm;
const char *kolo_algorithm_name(kolo_algorithm algorithm); /* "ring" */

typedef struct kolo_modelled_time_args {
    int _;
    const kolo_link_model *model;
    double bytes; /* S, the size of the whole array, at least 0 */
    kolo_guard *guard;
    kolo_modelled_operation operation;
    kolo_algorithm algorithm;
    int devices; /* the first N devices; more than one host's must be a multiple of them; default: all */
} kolo_modelled_time_args;

typedef struct kolo_modelled_time {
    double seconds;           /* modelled; NaN on failure */
    kolo_algorithm algorithm; /* the one that was taken */
    int64_t rounds;           /* of transfers */
    double bus_bandwidth;     /* GB/s as NCCL's tests define it: S/seconds, times 2(N−1)/N for an all-reduce, times (N−1)/N
                                 for a reduce-scatter or an all-gather; 0 for one device */
} kolo_modelled_time;

/* The modelled time of one collective. 16,384 devices take a second or so: rounds that are alike are simulated once. Any
 * thread. */
#define kolo_link_model_time(...)                                                                                      \
    kolo_link_model_time_at(&(const kolo_modelled_time_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_modelled_time kolo_link_model_time_at(const kolo_modelled_time_args *args, kolo_here here);

typedef struct kolo_modelled_step_args {
    int _;
    const kolo_link_model *model;
    double device_seconds; /* that one device takes for its batch and the update, alone: measured, or published */
    double gradient_bytes; /* of all gradients, at least 0 */
    kolo_guard *guard;
    int devices;              /* as in kolo_link_model_time() */
    kolo_algorithm algorithm; /* of the sums */
    double bucket_bytes;      /* gradients are summed in buckets of this size; default: all in one */
    double backward;          /* the share of device_seconds that the backward pass takes, at its end; default 2/3;
                                 KOLO_NONE: 0, so that no sum overlaps it */
    double early;             /* the share of gradient_bytes that is ready when the backward pass begins; the rest becomes
                                 ready evenly in its course. Default 0; 0.89 for VGG-16, whose dense layers come last */
    /* Seconds that the links do not explain. Nothing is assumed for them: fit them to rows of a table, and say so. */
    double each_step;     /* more, when there are several devices: a framework's work for a sum */
    double each_doubling; /* × log2(devices): devices that wait for the slowest one */
    double each_device;   /* × (devices − 1): work that a host does for one device after the other */
} kolo_modelled_step_args;

typedef struct kolo_modelled_step {
    double seconds;       /* modelled, of one step; NaN on failure */
    double communication; /* seconds of all sums */
    double exposed;       /* the part of them that the backward pass does not hide */
    double efficiency;    /* device_seconds / seconds: 1 if N devices train N times as many samples a second */
    double rate;          /* steps a second of all devices together: devices / seconds. × batch: samples a second */
} kolo_modelled_step;

/* The modelled time of a training step in which each device computes on a batch of its own (weak scaling). A bucket's sum
 * begins when its last gradient is ready and the sum before has ended:
 *
 *     seconds = device_seconds + exposed + each_step + each_doubling · log2 N + each_device · (N−1)
 *
 * and device_seconds alone if N is 1. With a parameter server the gradients go up bucket by bucket in the same way, and the
 * weights come back at the beginning of the next step, where nothing hides them. Any thread. */
#define kolo_link_model_step(...)                                                                                      \
    kolo_link_model_step_at(&(const kolo_modelled_step_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_modelled_step kolo_link_model_step_at(const kolo_modelled_step_args *args, kolo_here here);

typedef struct kolo_simulate_links_args {
    int _;
    const kolo_link_model *model; /* NULL: no links are simulated any more */
    kolo_guard *guard;
    kolo_algorithm algorithm; /* of all-reduces; other collectives take the fastest */
    bool wait;                /* each collective also waits as long as is modelled, in addition to its real time */
} kolo_simulate_links_args;

/* From now on a modelled clock runs beside this rank's collectives, of training, too: each adds the time that it would take
 * if rank r were device r of the model. The arithmetic stays real: results have the bits that they have without it. Resets
 * the clock. All ranks may make the same call, while none is in a collective. The ranks must be as many as .devices of
 * kolo_link_model_time() may be. The model stays valid until the next call, which may be with NULL, or until kolo_finish().
 * Collectives of a process set are not counted. With one rank nothing takes time. */
#define kolo_simulate_links(...)                                                                                       \
    kolo_simulate_links_at(&(const kolo_simulate_links_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_simulate_links_at(const kolo_simulate_links_args *args, kolo_here here);

typedef struct kolo_modelled_clock {
    double seconds;      /* modelled, of all collectives one after the other */
    int64_t collectives; /* that the seconds are of */
    double bytes;        /* of their arrays */
    int64_t unmodelled;  /* calls whose time is not known: all-to-all, reduce-scatter, and messages between two ranks */
} kolo_modelled_clock;
/* This rank's clock since kolo_simulate_links(). What shows its seconds must call them modelled. */
kolo_modelled_clock kolo_modelled_clock_now(void);

#endif
