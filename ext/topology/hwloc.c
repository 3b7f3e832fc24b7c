/* The plugin libkolo_hwloc.so: describes this machine's processors with hwloc. See topology.h.
 *
 * hwloc's environment variables HWLOC_SYNTHETIC and HWLOC_XMLFILE replace this machine by another one. */
#include "core/plugin.h"
#include "topology/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <string.h>

/* Adds the n-th processor, from 0, that this thread may run on. */
static void add_processor(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, int n, hwloc_cpuset_t share)
{
    hwloc_obj_t processor = hwloc_get_obj_inside_cpuset_by_type(topology, allowed, HWLOC_OBJ_PU, (unsigned)n);
    if (processor) hwloc_bitmap_or(share, share, processor->cpuset);
}

/* Sets `share` to a sharer's part of the allowed processors, a run of neighbours. If there are more sharers than
 * processors, several get the same one. */
static void deal(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, int sharers, int sharer, hwloc_cpuset_t share)
{
    int there = hwloc_get_nbobjs_inside_cpuset_by_type(topology, allowed, HWLOC_OBJ_PU);
    int first = (int)((int64_t)sharer * there / sharers), end = (int)((int64_t)(sharer + 1) * there / sharers);
    hwloc_bitmap_zero(share);
    for (int n = first; n == first || n < end; n++) add_processor(topology, allowed, n, share);
}

/* The system's number of the NUMA node to which all of these processors belong; -1: none. */
static int node_of(hwloc_topology_t topology, hwloc_const_cpuset_t cpus)
{
    int found = -1;
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (hwloc_bitmap_isincluded(cpus, node->cpuset) && found < 0) found = (int)node->os_index;
    return found;
}

/* The link of two devices: the smallest part of the machine that holds the processors of both. */
static kolo_link link_of(hwloc_topology_t topology, hwloc_const_cpuset_t both)
{
    hwloc_obj_t around = hwloc_get_obj_covering_cpuset(topology, both);
    switch (around ? around->type : HWLOC_OBJ_MACHINE) {
    case HWLOC_OBJ_PU:
    case HWLOC_OBJ_L1CACHE:
    case HWLOC_OBJ_L1ICACHE:
    case HWLOC_OBJ_CORE: return KOLO_LINK_SAME;
    case HWLOC_OBJ_L2CACHE: return KOLO_LINK_L2;
    case HWLOC_OBJ_L3CACHE: return KOLO_LINK_L3;
    default: return node_of(topology, both) >= 0 ? KOLO_LINK_NODE : KOLO_LINK_SYS;
    }
}

static void find_links(hwloc_topology_t topology, hwloc_cpuset_t *shares, int count, kolo_machine *machine)
{
    hwloc_cpuset_t both = hwloc_bitmap_alloc();
    for (int a = 0; both && a < count; a++) {
        for (int b = 0; b < count; b++) {
            hwloc_bitmap_or(both, shares[a], shares[b]);
            machine->between[a][b] = a == b ? KOLO_LINK_SELF : link_of(topology, both);
        }
    }
    hwloc_bitmap_free(both);
}

static int64_t largest_cache(hwloc_topology_t topology)
{
    int64_t largest = 0;
    for (int depth = 0; depth < hwloc_topology_get_depth(topology); depth++) {
        hwloc_obj_t first = hwloc_get_obj_by_depth(topology, depth, 0);
        if (!first || !hwloc_obj_type_is_dcache(first->type)) continue;
        int64_t bytes = (int64_t)first->attr->cache.size;
        if (bytes > largest) largest = bytes;
    }
    return largest;
}

static kolo_status describe(hwloc_topology_t topology, int sharers, int count, kolo_machine *machine)
{
    hwloc_cpuset_t shares[KOLO_PEERS_MAX] = {NULL}, allowed = hwloc_bitmap_alloc();
    bool fine = allowed != NULL;
    if (fine && hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_THREAD) != 0)
        fine = hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(topology)) == 0;
    for (int i = 0; i < count && fine; i++) {
        fine = (shares[i] = hwloc_bitmap_alloc()) != NULL;
        if (!fine) break;
        deal(topology, allowed, sharers, i, shares[i]);
        hwloc_bitmap_to_ulongs(shares[i], KOLO_CPU_WORDS, machine->spot[i].cpus);
        machine->spot[i].numa_node = node_of(topology, shares[i]);
    }
    if (fine) find_links(topology, shares, count, machine);
    machine->cache_bytes = largest_cache(topology);
    for (int i = 0; i < count; i++) hwloc_bitmap_free(shares[i]);
    hwloc_bitmap_free(allowed);
    return fine ? KOLO_OK : kolo_fail_memory(sizeof *machine, "the machine's topology");
}

static kolo_status read_machine(int sharers, int count, kolo_machine *machine)
{
    hwloc_topology_t topology;
    *machine = (kolo_machine){.cache_bytes = 0};
    if (hwloc_topology_init(&topology) != 0) return kolo_fail_memory(1 << 16, "the machine's topology");
    kolo_status status = KOLO_OK;
    if (hwloc_topology_load(topology) != 0)
        status = kolo_fail(KOLO_UNSUPPORTED, "hwloc could not read the machine's topology: %s", strerror(errno));
    else status = describe(topology, sharers, count, machine);
    hwloc_topology_destroy(topology);
    return status;
}

extern const kolo_plugin kolo_plugin_entry;
const kolo_plugin kolo_plugin_entry = {.version = KOLO_PLUGIN_VERSION, .read_machine = read_machine};
