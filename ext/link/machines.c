/* The machines and networks that have names. See link_model.h; kolo_link_model.h says what each of them is. */
#include "link/link_model.h"

#include <stdio.h>
#include <string.h>

/* A bandwidth in GB/s each way and a latency in µs. */
typedef struct speed {
    const char *kind;
    double bandwidth, latency;
} speed;

/* GPUs under PCIe switches, switches under processors, and NICs beside the GPUs. */
typedef struct tree {
    int gpus, gpus_per_switch, switches_per_processor;
    int nics_per_switch;
    int nics; /* at most, in all */
    speed gpu, up, across, nic; /* GPU to switch, switch to processor, processor to processor, NIC to switch */
} tree;

typedef struct machine {
    const char *name;
    tree pcie;
    speed nvswitch;    /* .kind NULL: there is none */
    const char *cubes; /* the NVLinks of "dgx-1v": a digit for each pair of GPUs; NULL: none */
} machine;

/* The bootcamp's figures of p2pBandwidthLatencyTest on a DGX-1V, with the rows that each number was set by. Without
 * peer access: 14.43 GB/s both ways between GPUs 0 and 2, so 7.215 each way; 9.56 between 0 and 1, which share a
 * switch; 16.41 µs. With it: 48.49 GB/s and 1.62 µs over one NVLink (0, 1), and 2.01 µs over two (0, 3). The latency of
 * a NIC is not among them; it is that of a PCIe switch. */
#define PCIE_3                                                                                                         \
    .gpu = {"PIX", 7.215, 4.2}, .up = {"PHB", 9.56, 4.0}, .across = {"SYS", 19.2, 1.6}, .nic = {"PIX", 12.5, 0.5}
#define NVLINK          24.245
#define NVLINK_LATENCY  1.62
#define NVLINKS_LATENCY 2.01

/* PCIe 4 and 5 at 31.5 and 63 GB/s, and NVLink at 300 and 450 GB/s each way, are peaks that the vendor states.
 * Latencies are those of the DGX-1V. */
static const machine machines[] = {
    {"dgx-1v",
     {8, 2, 2, 1, 4, PCIE_3},
     {0},
     /* NVLinks of 0-1 … 0-7, 1-2 … 1-7, and so on, as `nvidia-smi topo -m` prints them there */
     "1122000"
     "210200"
     "20010"
     "0001"
     "112"
     "21"
     "2"},
    {"dgx-a100",
     {8, 2, 2, 2, 8, .gpu = {"PIX", 31.5, 4.2}, .up = {"PHB", 31.5, 4.0}, .across = {"SYS", 50, 1},
      .nic = {"PIX", 31.5, 0.5}},
     {"NV12", 300, NVLINKS_LATENCY / 2},
     NULL},
    {"dgx-h100",
     {8, 2, 2, 2, 8, .gpu = {"PIX", 63, 4.2}, .up = {"PHB", 63, 4.0}, .across = {"SYS", 100, 1},
      .nic = {"PIX", 63, 0.5}},
     {"NV18", 450, NVLINKS_LATENCY / 2},
     NULL},
    {"pcie-8", {8, 2, 2, 1, 1, PCIE_3}, {0}, NULL},
    {"pcie-4", {4, 2, 2, 1, 1, PCIE_3}, {0}, NULL},
    /* rossumai/keras-multi-gpu, its page on hardware: 0.76 GB/s to a GPU behind a riser; 7 µs with peer access */
    {"pcie-risers",
     {7, 4, 2, 1, 1, .gpu = {"PIX", 0.76, 3.5}, .up = {"PHB", 6.2, 4.0}, .across = {"SYS", 19.2, 1},
      .nic = {"PIX", 1.25, 0.5}},
     {0},
     NULL},
    /* the same page: 6 GB/s to each GPU, and no peer access, for which a switch for each GPU stands */
    {"azure-m60",
     {4, 1, 4, 1, 1, .gpu = {"PIX", 6, 4.2}, .up = {"PHB", 6, 4.0}, .across = {"SYS", 19.2, 1},
      .nic = {"PIX", 1.25, 0.5}},
     {0},
     NULL}};

static kolo_status add_nodes(kolo_graph *graph, const char *where, int count, const char *name, kolo_node_kind kind)
{
    for (int i = 0; i < count; i++) KOLO_TRY(kolo_graph_add_node(graph, where, kolo_phrase("%s%d", name, i), kind));
    return KOLO_OK;
}

static kolo_status join(kolo_graph *graph, const char *where, const char *from, const char *to, speed s)
{
    return kolo_graph_add_link(graph, where, from, to, s.kind, s.bandwidth, s.latency);
}

static int rounded_up(int count, int each)
{
    return (count + each - 1) / each;
}

static kolo_status add_tree(kolo_graph *graph, const char *where, const tree *t)
{
    int switches = rounded_up(t->gpus, t->gpus_per_switch);
    int processors = rounded_up(switches, t->switches_per_processor);
    KOLO_TRY(add_nodes(graph, where, t->gpus, "gpu", KOLO_NODE_DEVICE));
    KOLO_TRY(add_nodes(graph, where, switches, "plx", KOLO_NODE_SWITCH));
    KOLO_TRY(add_nodes(graph, where, processors, "cpu", KOLO_NODE_HOST));
    KOLO_TRY(add_nodes(graph, where, t->nics, "nic", KOLO_NODE_NIC));
    for (int i = 0; i < t->gpus; i++)
        KOLO_TRY(join(graph, where, kolo_phrase("gpu%d", i), kolo_phrase("plx%d", i / t->gpus_per_switch), t->gpu));
    for (int i = 0; i < switches; i++)
        KOLO_TRY(join(graph, where, kolo_phrase("plx%d", i), kolo_phrase("cpu%d", i / t->switches_per_processor),
                      t->up));
    for (int i = 1; i < processors; i++)
        KOLO_TRY(join(graph, where, kolo_phrase("cpu%d", i - 1), kolo_phrase("cpu%d", i), t->across));
    for (int i = 0; i < t->nics; i++)
        KOLO_TRY(join(graph, where, kolo_phrase("nic%d", i), kolo_phrase("plx%d", i / t->nics_per_switch), t->nic));
    return KOLO_OK;
}

static kolo_status add_nvswitch(kolo_graph *graph, const char *where, const machine *m)
{
    if (!m->nvswitch.kind) return KOLO_OK;
    KOLO_TRY(kolo_graph_add_node(graph, where, "nvswitch", KOLO_NODE_SWITCH));
    for (int i = 0; i < m->pcie.gpus; i++)
        KOLO_TRY(join(graph, where, kolo_phrase("gpu%d", i), "nvswitch", m->nvswitch));
    return KOLO_OK;
}

static kolo_status add_cubes(kolo_graph *graph, const char *where, const machine *m)
{
    const char *links = m->cubes;
    for (int a = 0; links && a < m->pcie.gpus; a++) {
        for (int b = a + 1; b < m->pcie.gpus; b++, links++) {
            int count = *links - '0';
            speed s = {kolo_phrase("NV%d", count), count * NVLINK, count > 1 ? NVLINKS_LATENCY : NVLINK_LATENCY};
            if (count > 0) KOLO_TRY(join(graph, where, kolo_phrase("gpu%d", a), kolo_phrase("gpu%d", b), s));
        }
    }
    return KOLO_OK;
}

/* The names of a list, in one phrase: "dgx-1v, dgx-a100". */
static const char *names_of(const void *first, size_t stride, size_t count)
{
    char names[200];
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 *(const char *const *)((const char *)first + i * stride));
    return kolo_phrase("%s", names);
}

kolo_status kolo_machine_named(const char *name, kolo_graph *graph)
{
    size_t count = sizeof machines / sizeof *machines;
    for (size_t i = 0; i < count; i++) {
        const machine *m = &machines[i];
        if (strcmp(name, m->name) != 0) continue;
        KOLO_TRY(add_tree(graph, name, &m->pcie));
        KOLO_TRY(add_nvswitch(graph, name, m));
        return add_cubes(graph, name, m);
    }
    return kolo_fail(KOLO_NOT_FOUND, "machine: wanted %s, or the path of a .json file, got \"%.60s\"",
                     names_of(&machines->name, sizeof *machines, count), name);
}

/* Bandwidths are the nominal ones. Latencies are of one way from a NIC to the switch. That of roce-25 was fitted to
 * Horovod's VGG-16 on 128 and 512 GPUs (source_code/N7/published.h); the others are typical of the kind of network, and
 * were fitted to nothing. */
static const struct named_network {
    const char *name;
    kolo_network network;
} networks[] = {{"ethernet-1", {"Ethernet", 0.125, 15}},
                {"ethernet-10", {"Ethernet", 1.25, 10}},
                {"roce-25", {"Ethernet", 3.125, 1.5}},
                {"ib-edr", {"IB", 12.5, 0.6}},
                {"ib-hdr", {"IB", 25, 0.6}},
                {"ib-ndr", {"IB", 50, 0.6}}};

kolo_status kolo_network_named(const char *name, kolo_network *network)
{
    size_t count = sizeof networks / sizeof *networks;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, networks[i].name) != 0) continue;
        *network = networks[i].network;
        return KOLO_OK;
    }
    return kolo_fail(KOLO_NOT_FOUND, "network: wanted %s, got \"%.60s\"",
                     names_of(&networks->name, sizeof *networks, count), name);
}
